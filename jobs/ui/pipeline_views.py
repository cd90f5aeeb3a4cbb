"""The page of a job's pipeline: the tree of its stages, and the form that changes it."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from jobs.connectors.transformation.pipeline import read_pipeline
from jobs.forms.pipeline import PipelineForm
from jobs.lifecycle.job import Phase
from jobs.models import Job
from jobs.queries.jobs.pipeline import read_tree
from jobs.ui.pages import page
from jobs.verbs import editing
from nodes.database.clock import read_clock
from nodes.errors import Invalid
from nodes.web.form_conflicts import CHANGED, SEEN, mark_of
from nodes.web.pages import user_with_permission

_MAY_CHANGE = "jobs.change_job"


@page
@require_http_methods(["GET", "HEAD", "POST"])
def pipeline(request: HttpRequest, job_id: int) -> HttpResponse:
    """Show the pipeline of a job. POST returns the form with one more stage, or stores all stages."""
    job = Job.objects.prefetch_related("outputs").filter(pk=job_id).first()
    if job is None:
        raise Http404(_("Job %(id)d does not exist.") % {"id": job_id})
    outputs = sorted(((output.pk, output.name) for output in job.outputs.all()), key=lambda output: output[1])
    status = 200
    seen = mark_of([job.pipeline, outputs])
    if request.method == "POST":
        made_by = user_with_permission(request, _MAY_CHANGE)
        form = PipelineForm(read_pipeline(job.pipeline), outputs=outputs, data=request.POST)
        sent = request.POST.get(SEEN, seen)
        if form.was_asked_for_a_stage():
            form.add_stage()
            # The form is shown again with the mark of the values that its user saw first, so that a change by another
            # user is noticed.
            seen = sent
        elif sent != seen:
            form.problems.append(str(CHANGED))
            status = 409
        elif form.is_valid():
            if _store(job, form, made_by=made_by):
                messages.success(request, _("The pipeline is stored. The next run reads all documents again."))
                return redirect("job-pipeline", job_id)
            status = 400
        else:
            status = 400
    else:
        form = PipelineForm(read_pipeline(job.pipeline), outputs=outputs)
    context = {
        "job": job,
        "form": form,
        "tree": read_tree(job),
        "seen": seen,
        "is_running": job.phase != Phase.INACTIVE,
    }
    return render(request, "ui/pipeline.html", context, status=status)


def _store(job: Job, form: PipelineForm, *, made_by: str) -> bool:
    """Store the pipeline of a valid form; return False with the problems in the form."""
    try:
        editing.change_job(job.pk, pipeline=form.value(), made_by=made_by, now=read_clock())
    except Invalid as invalid:
        form.show(invalid.problems)
        return False
    return True
