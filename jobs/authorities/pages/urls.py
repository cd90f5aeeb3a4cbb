"""The addresses of the page of authorities."""

from django.urls import path

from jobs.authorities.pages import views

urlpatterns = [
    path("", views.authorities, name="authorities"),
    path("ask/", views.ask, name="authorities-ask"),
    path("check/", views.check, name="authorities-check"),
    path("tokens/new/", views.new_token, name="authorities-token-new"),
    path("tokens/<int:token_id>/revoke/", views.revoke_token, name="authorities-token-revoke"),
]
