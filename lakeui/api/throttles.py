"""How often one caller may ask; over it: 429 with Retry-After. Rates are settings."""

from django.conf import settings
from rest_framework.throttling import AnonRateThrottle, UserRateThrottle


class PersonThrottle(UserRateThrottle):
    """By person, tokens included."""

    def get_rate(self) -> str:
        return str(settings.API_RATE_PERSON)


class AnonymousThrottle(AnonRateThrottle):
    """By address, of who has not signed in."""

    def get_rate(self) -> str:
        return str(settings.API_RATE_ANONYMOUS)
