"""The addresses of the pages of distributed jobs."""

from django.urls import path

from nodes.distributed.pages import views

urlpatterns = [
    path("", views.distributed_jobs, name="distributed-jobs"),
    path("rebalance/", views.rebalance, name="distributed-rebalance"),
    path("switch/", views.switch, name="distributed-switch"),
    path("job/<str:job>/", views.distributed_job, name="distributed-job"),
]
