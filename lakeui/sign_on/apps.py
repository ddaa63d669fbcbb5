from django.apps import AppConfig


class SignOnConfig(AppConfig):
    name = "lakeui.sign_on"
    label = "sign_on"
    verbose_name = "Sign-on"

    def ready(self) -> None:
        """Refuse settings by which nobody could sign in, or the wrong people could."""
        from lakeui.sign_on.configuration import check  # noqa: PLC0415 - settings are ready now

        check()
