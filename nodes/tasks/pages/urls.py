"""The addresses of the pages of background tasks, except for the lists, which cover all databases."""

from django.urls import path

from nodes.tasks.pages import actions, templates, views

urlpatterns = [
    path("scheduled/cancel/", actions.cancel_some, name="tasks-cancel"),
    path("archived/reschedule/", actions.reschedule_some, name="tasks-reschedule"),
    path("templates/new/", templates.create, name="task-template-new"),
    path("templates/<int:template_id>/", templates.change, name="task-template"),
    path("templates/<int:template_id>/remove/", templates.remove, name="task-template-remove"),
    path("run/", actions.run, name="task-run"),
    path("<int:task_id>/", views.task, name="task"),
    path("<int:task_id>/cancel/", actions.cancel, name="task-cancel"),
    path("<int:task_id>/reschedule/", actions.reschedule, name="task-reschedule"),
]
