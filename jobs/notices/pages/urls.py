"""The addresses of the pages of notifications."""

from django.urls import path

from jobs.notices.pages import mailings, views

urlpatterns = [
    path("", views.notifications, name="notifications"),
    path("channels/new/<slug:kind>/", views.new_channel, name="notification-channel-new"),
    path("channels/<int:channel_id>/", views.channel, name="notification-channel"),
    path("channels/<int:channel_id>/act/", views.act_on_channel, name="notification-channel-act"),
    path("rules/new/", views.new_rule, name="notification-rule-new"),
    path("rules/<int:rule_id>/", views.rule, name="notification-rule"),
    path("rules/<int:rule_id>/act/", views.act_on_rule, name="notification-rule-act"),
    path("mailings/new/", mailings.new, name="notification-mailing-new"),
    path("mailings/<int:mailing_id>/", mailings.change, name="notification-mailing"),
    path("mailings/<int:mailing_id>/remove/", mailings.remove, name="notification-mailing-remove"),
]
