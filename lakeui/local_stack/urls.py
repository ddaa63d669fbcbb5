"""The address of the login link."""

from django.urls import path

from lakeui.local_stack import views

urlpatterns = [path("login/<str:token>/", views.login_link, name="login-link")]
