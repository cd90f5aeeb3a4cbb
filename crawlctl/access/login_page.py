"""The page where people log in."""

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpResponse

from crawlctl.access import logins


class LoginPage(LoginView):
    """Answers 429 to an attempt above the limit, as the API does."""

    template_name = "ui/login.html"
    redirect_authenticated_user = True

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        wait = logins.seconds_to_wait(self.request)
        if not wait:
            return super().form_invalid(form)
        response = self.render_to_response(self.get_context_data(form=form, seconds_to_wait=wait), status=429)
        response["Retry-After"] = str(wait)
        return response
