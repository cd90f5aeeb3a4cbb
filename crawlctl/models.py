"""The tables of the composition root: login attempts, users of a provider, API tokens, and languages of users."""

from django.contrib.auth.models import User
from django.db import models
from django.db.models.functions import Now


class LoginAttempt(models.Model):
    """
    One login attempt with a wrong password, or an attempt that is not decided yet. The row is kept for minutes.

    `name` is a digest, because users sometimes type a password there by mistake.
    """

    name = models.CharField(max_length=64)
    address = models.CharField(max_length=100)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        indexes = (
            models.Index(fields=["address", "at"], name="login_attempt_by_address"),
            models.Index(fields=["at"], name="login_attempt_by_age"),
        )


class ProviderIdentity(models.Model):
    """A user of a provider of OpenID Connect. A subject is never given to another person, unlike a name."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    # Null until the first login of a user that an administrator linked.
    logged_in_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=["issuer", "subject"], name="one_user_of_a_subject"),)

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


class UserOfToken(User):
    """A user whose request has an API token. The user has only the permissions that the scope of the token also has."""

    # Permissions of the scope. A token without a scope has no permissions.
    scope: frozenset[str] = frozenset()

    class Meta:
        proxy = True
        default_permissions = ()

    def has_perm(self, perm: str, obj: models.Model | None = None) -> bool:
        return perm in self.scope and super().has_perm(perm, obj)

    def has_module_perms(self, app_label: str) -> bool:
        return any(self.has_perm(perm) for perm in self.scope if perm.startswith(f"{app_label}."))

    def get_all_permissions(self, obj: models.Model | None = None) -> set[str]:
        return super().get_all_permissions(obj) & self.scope


class ApiToken(models.Model):
    """A long-lived token with which a program sends requests for its owner. Only a digest of its text is stored."""

    owner = models.ForeignKey(UserOfToken, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    # A role. The token has no permission that this role lacks.
    scope = models.CharField(max_length=20)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=200)
    expires_at = models.DateTimeField(null=True, blank=True)
    # Exact to a minute, so that a busy program does not write a row with each request.
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ("add", "delete", "view")
        permissions = (("manage_apitoken", "Can view and revoke the tokens of all users"),)
        constraints = (models.UniqueConstraint(fields=["owner", "name"], name="one_api_token_of_a_name"),)

    def __str__(self) -> str:
        return self.name


class LanguageOfUser(models.Model):
    """The language that a user has chosen for the pages. Without a row, the browser decides."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True)
    language = models.CharField(max_length=20)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.language
