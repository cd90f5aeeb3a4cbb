"""Proves that ManifoldCF's JSON becomes definitions. Each part without an equivalent is named with its place."""

import pytest

from jobs.definitions.manifoldcf.convert import convert
from jobs.definitions.manifoldcf.limits import host_pattern
from tests.support import manifoldcf as given
from tests.support.tables import each_row


def converted(*bodies, connector_of=lambda _name: None):
    return convert([("a.json", body) for body in bodies], connector_of=connector_of)


def definitions(*bodies):
    return {(one["definition"], one["name"]): one for _, one in converted(*bodies).definitions}


def notes(*bodies):
    return {note.place.removeprefix("a.json: "): note.why for note in converted(*bodies).notes}


def test_a_web_connection_becomes_a_repository_and_a_policy():
    found = definitions(given.WEB)

    assert found["repository", "Intranet"] == {
        "definition": "repository",
        "name": "Intranet",
        "connector": "web",
        "configuration": {"user_agent": "crawlctl/0.1 (crawl@docs.test)"},
        "authority_group": "staff",
    }
    assert found["policy", "Intranet"] == {
        "definition": "policy",
        "name": "Intranet",
        "open_requests": 2,
        "bytes_per_second": 64_000,
        "starts": 12,
        "period": "minute",
        "rules": [
            {"pattern": "slow.docs.test", "starts": 3, "period": "minute"},
            {"pattern": "*docs.test*", "starts": 6, "period": "minute"},
        ],
    }


def test_parts_of_a_web_connection_without_an_equivalent_are_named():
    assert set(notes(given.WEB)) == {
        "repositoryconnection.max_connections",
        "repositoryconnection.configuration._PARAMETER_[1]",
        "repositoryconnection.configuration._PARAMETER_[2]",
        "repositoryconnection.configuration.bindesc[2]",
        "repositoryconnection.configuration.accesscredential",
    }
    assert "swordfish" not in str(notes(given.WEB))


def test_a_web_job_keeps_its_seeds_rules_schedule_and_limits():
    assert definitions(given.WEB, given.WEB_JOB)["job", "Intranet pages"] == {
        "definition": "job",
        "name": "Intranet pages",
        "repository": "Intranet",
        "outputs": ["Solr"],
        "seeds": [{"urls": ["http://docs.test/", "http://docs.test/more"], "policy": "Intranet"}],
        "specification": {"scope": "host", "exclude": ["\\.zip$", "(?=lookahead)"], "exclude_text": ["draft"]},
        "priority": 3,
        "kind": "once",
        "hop_mode": "never_delete",
        "hop_limits": {"link": 4},
        "start_method": "window_begin",
        "windows": [
            {
                "days_of_week": [6, 7],
                "days_of_month": [1, 3],
                "months": [1],
                "years": [2027],
                "hours": [1],
                "minutes": [30],
                "time_zone": "Europe/Berlin",
                "duration": 7200,
                "minimal": True,
            }
        ],
        "access_rules": [{"pattern": ".", "allow": ["staff"]}],
    }


def test_parts_of_a_web_job_without_an_equivalent_are_named():
    found = {place: why for place, why in notes(given.WEB, given.WEB_JOB).items() if place.startswith("job")}

    assert set(found) == {
        "job.document_specification.excludes",
        "job.document_specification.excludesindex",
        "job.document_specification.urlspec",
        "job.document_specification.something_new",
        "job.hopcount[1]",
        "job.pipelinestage[0]",
        "job.forcedparam",
    }
    assert "RE2 does not accept '(?=lookahead)'" in found["job.document_specification.excludes"]


def test_a_continuous_feed_job_keeps_its_feeds_and_intervals():
    found = definitions(given.FEEDS, given.FEED_JOB)

    job = found["job", "News"]
    assert job["seeds"] == [{"urls": ["http://news.test/a", "http://news.test/b"], "policy": "News"}]
    assert job["specification"] == {"exclude": ["/ads/"]}
    assert (job["kind"], job["recrawl_after"], job["recrawl_at_most"]) == ("continuous", 86_400, 172_800.5)
    assert job["reseed_after"] == 3_600
    assert found["policy", "News"] == {
        "definition": "policy",
        "name": "News",
        "open_requests": 3,
        "bytes_per_second": 32_000,
    }
    assert set(notes(given.FEEDS, given.FEED_JOB)) == {
        "repositoryconnection.configuration._PARAMETER_[2]",
        "job[0].document_specification.feedrescan",
        "job[0].document_specification.chromedmode",
    }


def test_a_file_job_moves_its_directories_to_its_connection(tmp_path):
    job = given.file_job(tmp_path)
    found = definitions(given.FILES, job)

    assert found["repository", "Shares"]["configuration"] == {"roots": [str(tmp_path)]}
    assert found["job", "Shares"]["seeds"] == [{"urls": [tmp_path.as_uri()]}]
    assert found["job", "Shares"]["specification"] == {"include": ["*.txt"], "exclude": ["drafts"]}
    assert set(notes(given.FILES, job)) == {"job.document_specification.startpoint._children_[3]"}


def test_other_outputs_become_the_search_index():
    found = definitions(given.SOLR, given.NULL)

    assert (found["output", "Solr"]["connector"], found["output", "Nothing"]["connector"]) == ("search", "null")
    assert "SolrConnector" in notes(given.SOLR)["outputconnection"]


def test_unknown_connectors_and_objects_are_named():
    job = {"job": {"description": "a", "repository_connection": "SharePoint"}}

    assert set(notes(given.OTHER, job, {"authoritygroup": {"name": "staff"}}, 7)) == {
        "repositoryconnection",
        "job",
        "authoritygroup",
        "a.json",
    }


def test_a_list_of_objects_is_converted():
    listed = {"repositoryconnection": [given.WEB["repositoryconnection"], given.FEEDS["repositoryconnection"]]}

    assert {name for kind, name in definitions([listed, given.NULL]) if kind == "repository"} == {"Intranet", "News"}


def test_jobs_with_one_description_get_different_names():
    first = given.FEED_JOB["job"][0]

    found = converted(given.FEEDS, {"job": [first, first]})

    assert [one["name"] for _, one in found.definitions if one["definition"] == "job"] == ["News", "News (2)"]


def test_a_job_of_a_stored_connection_is_converted():
    found = converted(given.FEED_JOB, connector_of={"News": "feed"}.get)

    assert [one["name"] for _, one in found.definitions] == ["News"]


@each_row(
    ("expression", "pattern"),
    [
        ("", ""),
        (".*", ""),
        ("^www\\.docs\\.test$", "www.docs.test"),
        ("docs\\.test$", "*docs.test"),
        ("^WWW\\.", "www.*"),
        ("^a.*\\.test$", "a*.test"),
        ("^(a|b)$", None),
        ("^a.test$", None),
        ("[ab]", None),
        ("a+", None),
    ],
)
def test_a_simple_regular_expression_of_hosts_becomes_a_pattern(expression, pattern):
    assert host_pattern(expression) == pattern


def test_a_narrow_rule_gets_the_strictest_limits_of_wider_rules():
    bins = [("^a\\.docs\\.test$", 9), ("docs\\.test$", 5), ("", 7)]
    described = [{"_attribute_binregexp": one, "maxfetchesperminute": {"_attribute_value": most}} for one, most in bins]
    connection = {**given.WEB["repositoryconnection"], "configuration": {"bindesc": described}, "throttle": []}

    policy = definitions({"repositoryconnection": connection})["policy", "Intranet"]

    assert (policy["starts"], [(rule["pattern"], rule["starts"]) for rule in policy["rules"]]) == (
        7,
        [("a.docs.test", 5), ("*docs.test", 5)],
    )


def test_pipeline_stages_with_an_equivalent_become_stages():
    package = "org.apache.manifoldcf.agents.transformation."
    connections = {
        "Filter": "documentfilter.DocumentFilter",
        "Adjuster": "forcedmetadata.ForcedMetadataConnector",
        "Names": "opennlp.OpenNlpExtractor",
    }
    filtered = {
        "minlength": {"_attribute_value": "0"},
        "maxlength": {"_attribute_value": "1000"},
        "mimetypes": "text/html\napplication/pdf",
        "extensions": "*",
    }
    adjusted = {
        "fieldmap": [{"_attribute_source": "a", "_attribute_target": "b"}, {"_attribute_source": "c"}],
        "expression": {"_attribute_parameter": "label", "_attribute_value": "by ${author}"},
        "keepAllMetadata": {"_attribute_value": "false"},
        "filterEmpty": {"_attribute_value": "true"},
    }
    stages = [
        {"stage_id": "0", "stage_connectionname": "Filter", "stage_isoutput": "false", "stage_specification": filtered},
        {"stage_id": "1", "stage_prerequisite": "0", "stage_connectionname": "Names", "stage_isoutput": "false"},
        {"stage_id": "2", "stage_prerequisite": "1", "stage_connectionname": "Adjuster", "stage_isoutput": "false",
         "stage_description": "labels", "stage_specification": adjusted},
        {"stage_id": "3", "stage_prerequisite": "2", "stage_connectionname": "Solr", "stage_isoutput": "true"},
        {"stage_id": "4", "stage_prerequisite": "1", "stage_connectionname": "Nothing", "stage_isoutput": "true"},
    ]  # fmt: skip
    job = {**given.WEB_JOB["job"], "pipelinestage": stages}
    files = [
        given.WEB,
        *({"transformationconnection": {"name": name, "class_name": package + of}} for name, of in connections.items()),
        {"job": job},
    ]
    found = definitions(*files)["job", "Intranet pages"]
    assert found["outputs"] == ["Solr", "Nothing"]
    assert found["pipeline"] == {
        "stages": [
            {
                "name": "Filter",
                "kind": "allowed",
                "input": "source",
                "settings": {"max_bytes": 1000, "content_types": ["text/html", "application/pdf"]},
            },
            {
                "name": "labels",
                "kind": "metadata",
                "input": "Filter",
                "settings": {
                    "rename": ["a = b"],
                    "set": ["label = by ${author}"],
                    "remove": ["c"],
                    "keep": ["b", "label"],
                },
            },
        ],
        "outputs": {"Nothing": "Filter"},
    }
    left = {place: why for place, why in notes(*files).items() if "pipelinestage" in place}
    assert left == {
        "job.pipelinestage[1]": f"crawlctl has no transformation {package}opennlp.OpenNlpExtractor, so Names is left out."
    }


def _with_stage(class_name, specification, **connection):
    """Return the files of a job with one stage before its output."""
    stages = [
        {"stage_id": "0", "stage_connectionname": "T", "stage_isoutput": "false", "stage_specification": specification},
        {"stage_id": "1", "stage_prerequisite": "0", "stage_connectionname": "Solr", "stage_isoutput": "true"},
    ]
    class_name = f"org.apache.manifoldcf.agents.transformation.{class_name}"
    transformation = {"name": "T", "class_name": class_name, **connection}
    job = {**given.WEB_JOB["job"], "pipelinestage": stages}
    return [given.WEB, {"transformationconnection": transformation}, {"job": job}]


def _pipeline(*files):
    pipeline = definitions(*files)["job", "Intranet pages"]["pipeline"]
    notes = [note.why for note in converted(*files).notes if "pipelinestage" in note.place]
    return [(stage["kind"], stage["input"], stage["settings"]) for stage in pipeline["stages"]], notes


_FIELDS = [
    {"_attribute_source": "dc:creator", "_attribute_target": "writer"},
    {"_attribute_source": "dc:subject", "_attribute_target": "subject"},
    {"_attribute_source": "pdf:producer", "_attribute_target": ""},
]


def test_tika_becomes_the_extraction_of_texts_and_its_metadata():
    specification = {
        "fieldmap": _FIELDS,
        "keepAllMetadata": {"_attribute_value": "false"},
        "lowerNames": {"_attribute_value": "true"},
        "ignoreException": {"_attribute_value": "true"},
        "boilerplateprocessor": {"_attribute_value": ""},
    }
    assert _pipeline(*_with_stage("tika.TikaExtractor", specification)) == (
        [
            ("extract", "source", {}),
            ("metadata", "T", {"rename": ["author = writer"], "remove": ["producer"], "keep": ["writer", "subject"]}),
        ],
        ["A document that cannot be read ends with EXTRACTION_FAILED, and is not sent without its text."],
    )


@pytest.mark.parametrize("class_name", ["tikaservice.TikaExtractor", "tikaservice.rmeta.TikaExtractor"])
def test_a_tika_server_keeps_its_address_and_limits(class_name):
    parameters = [
        {"_attribute_name": "tikaHostname", "_value_": "tika.test"},
        {"_attribute_name": "tikaPort", "_value_": "9999"},
        {"_attribute_name": "socketTimeout", "_value_": "45000"},
    ]
    files = _with_stage(
        class_name,
        {"writeLimit": {"_attribute_value": "100"}},
        configuration={"_PARAMETER_": parameters},
        max_connections="10",
    )
    assert _pipeline(*files) == (
        [("tika", "source", {"url": "http://tika.test:9999", "seconds": 45.0, "connections": 10})],
        ["The text of a document is not cut."],
    )


def test_the_html_extractor_keeps_its_first_filter_and_its_removals():
    specification = {
        "includefilter": [{"_attribute_regex": "article"}, {"_attribute_regex": "main"}],
        "excludefilter": {"_attribute_regex": ".ads"},
        "striphtml": {"_attribute_value": "false"},
    }
    files = _with_stage("htmlextractor.HtmlExtractor", specification)
    stages, _ = _pipeline(*files)
    assert stages == [("html", "source", {"text": ["article"], "remove": [".ads"]})]


def test_a_selector_that_crawlctl_does_not_know_is_named():
    files = _with_stage("htmlextractor.HtmlExtractor", {"excludefilter": {"_attribute_regex": "div:matches(^x"}})
    stages, notes = _pipeline(*files)
    assert stages == [("html", "source", {"text": ["body"]})]
    assert any("div:matches(^x" in why for why in notes)
