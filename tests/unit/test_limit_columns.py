"""Proves that each limit of a policy is declared in one place, from which all parts of the program read it."""

from jobs.admin.policy_form import PolicyForm, RuleForm
from jobs.api.policies import PolicySerializer, RuleSerializer
from jobs.lifecycle.limits import COUNTS, LIMITS, LimitColumns, LimitFacts
from jobs.models import ThrottlePolicy, ThrottleRule


def test_tables_forms_the_api_and_operations_have_every_limit():
    names = {
        "table of policies": {field.name for field in ThrottlePolicy._meta.fields},
        "table of rules": {field.name for field in ThrottleRule._meta.fields},
        "API of policies": set(PolicySerializer().fields),
        "API of rules": set(RuleSerializer().fields),
        "form of policies": set(PolicyForm.base_fields),
        "form of rules": set(RuleForm.base_fields),
        "operations": set(LimitFacts.__annotations__),
    }

    assert {part: missing for part, has in names.items() if (missing := set(LIMITS) - has)} == {}


def test_every_whole_number_has_a_maximum():
    whole = {name for name, type_ in LimitColumns.__annotations__.items() if type_ == int | None}

    assert whole == set(COUNTS)
