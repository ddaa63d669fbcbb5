"""The addresses of the login link and of the demo's end."""

from django.urls import path

from lakeui.local_stack import views

urlpatterns = [
    path("login/<str:token>/", views.login_link, name="login-link"),
    path("demo/remove/", views.demo_remove, name="demo-remove"),
]
