"""The addresses of the page of a user's account."""

from django.urls import path

from crawlctl.access.api_tokens import pages

urlpatterns = [
    path("", pages.account, name="account"),
    path("tokens/new/", pages.new_token, name="api-token-new"),
    path("tokens/<int:token_id>/revoke/", pages.revoke_token, name="api-token-revoke"),
]
