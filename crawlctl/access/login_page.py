"""The pages where people log in and out."""

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from crawlctl.access import logins
from crawlctl.access.single_sign_on.sessions import began_at_provider


class LoginPage(LoginView):
    """Answers 429 to an attempt above the limit, as the API does. Shows the ways to log in that the settings allow."""

    template_name = "ui/login.html"
    redirect_authenticated_user = True

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        return super().get_context_data(**more, **logins.login_methods(), ended="ended" in self.request.GET)

    def post(self, request: HttpRequest, *args: str, **more: Any) -> HttpResponse:
        if not logins.login_methods()["passwords"]:
            return self.render_to_response(self.get_context_data(), status=403)
        return super().post(request, *args, **more)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        wait = logins.seconds_to_wait(self.request)
        if not wait:
            return super().form_invalid(form)
        response = self.render_to_response(self.get_context_data(form=form, seconds_to_wait=wait), status=429)
        response["Retry-After"] = str(wait)
        return response


class LogOut(LogoutView):
    """Ends the session. After a login at the provider, the next page offers to log out there, too."""

    def post(self, request: HttpRequest, *args: Any, **more: Any) -> HttpResponse:
        at_provider = began_at_provider(request)
        response = super().post(request, *args, **more)
        # A form may not lead to another site (`form-action 'self'`), so the next page has a link.
        return redirect(f"{reverse('login')}?ended") if at_provider else response
