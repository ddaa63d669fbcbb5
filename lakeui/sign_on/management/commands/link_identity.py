"""`manage.py link_identity USERNAME`: links a provider's subject to an account."""

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from lakeui.sign_on.models import LinkedIdentity
from lakeui.sign_on.people import link


class Command(BaseCommand):
    help = "Link a subject of the OpenID provider or of a proxy to an account, or list the links."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--subject", default="", help="the subject, as shown on the error page")
        parser.add_argument(
            "--issuer", default="", help="the issuer; OIDC_ISSUER by default, and proxy for a proxy"
        )
        parser.add_argument("--remove", action="store_true", help="unlink the subject")

    def handle(self, *args: object, **options: object) -> None:
        del args
        user = User.objects.filter(username=str(options["username"])).first()
        if user is None:
            msg = f"There is no user {options['username']}."
            raise CommandError(msg)
        issuer = str(options["issuer"]) or settings.OIDC_ISSUER
        subject = str(options["subject"])
        if subject and options["remove"]:
            LinkedIdentity.objects.filter(user=user, issuer=issuer, subject=subject).delete()
        elif subject:
            try:
                link(user, issuer, subject)
            except ValidationError as error:
                raise CommandError("; ".join(error.messages)) from error
        for identity in user.identities.all():
            self.stdout.write(f"{identity.issuer}  {identity.subject}  {identity.email}".rstrip())
