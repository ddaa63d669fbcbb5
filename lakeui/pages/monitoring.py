"""Operation of the lake: workers, queues, Spark, the mirror, current problems, and alerts.

The first page also suits a wall screen. Channels and rules of alerts are set up by admins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from engine.errors import EngineError
from lakeui.catalog.access import may, visible_tables
from lakeui.catalog.filters import is_row_id
from lakeui.catalog.reads import cancel_read, filter_cancellable, list_reads
from lakeui.jobs.turns import beat_seen_at
from lakeui.monitoring.alerting.channels import (
    MAX_GROUP_MINUTES,
    MAX_REPEAT_HOURS,
    MAX_THRESHOLD,
    change_channel,
    change_rule,
    make_channel,
    make_rule,
    send_test,
)
from lakeui.monitoring.alerting.webhooks import MAX_URL
from lakeui.monitoring.attention import CONDITIONS
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.deliveries import outboxes
from lakeui.monitoring.health import readiness
from lakeui.monitoring.models import AlertChannel, AlertDelivery, AlertRule
from lakeui.monitoring.operations import queues
from lakeui.monitoring.recent_conflicts import day_of
from lakeui.monitoring.worker_state import Hour, spark_sum, throughput, worker_states
from lakeui.pages.errors import refuse_when_read_only
from lakeui.pages.listing import range_of, range_query
from lakeui.pages.overview import build_attention

_LAGGING_SHOWN = 10
_LABEL_STEPS = {"24h": 3, "7d": 2, "30d": 6}  # columns from one label to the next
_ITEMS = 20  # of each condition that needs attention

_HEIGHT, _BASE = 96, 112
_LEAST = 2.0

_Row = TypeVar("_Row", AlertChannel, AlertRule)
_SHOWN = 20
_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


@login_required
def monitoring(request: HttpRequest) -> HttpResponse:
    """Render the page; the broker's answers are a separate fragment that delays nothing."""
    is_fragment = bool(request.htmx)  # type: ignore[attr-defined]  # by its middleware
    asks = request.GET.get("ask") == "workers"
    parts = {"parts": readiness(), "asked": True} if asks else {"asked": False}
    if is_fragment and asks:
        return render(request, "monitoring/_answers.html", parts)
    context = (
        _build_current_state(request)
        | parts
        | {"twin": f"/api/v1/monitoring/{range_query(request)}"}
    )
    context["may_see_alerts"] = may(request.user, "maintain")
    context["outboxes"] = outboxes() if context["may_see_alerts"] else ()
    template = "monitoring/_now.html" if is_fragment else "monitoring/monitoring.html"
    return render(request, template, context)


@require_POST
@login_required
def cancel_person_read(request: HttpRequest, pk: UUID) -> HttpResponse:
    """End a read that a person waits for: one's own, or of a table that one may maintain."""
    reads = list_reads(request.user)
    read = get_object_or_404(reads, pk=pk)
    if not filter_cancellable(reads, request.user).filter(pk=pk).exists():
        raise PermissionDenied
    cancel_read(read)
    return redirect("monitoring")


def _build_current_state(request: HttpRequest) -> dict[str, Any]:
    now, time_range = timezone.now(), range_of(request)
    tables, reads = visible_tables(request.user), list_reads(request.user)
    states = worker_states(request.user)
    waiting = queues()
    jobs = throughput(request.user, now, time_range)
    mirrored = tables.filter(mirrored_at__isnull=False).order_by("mirrored_at")
    lagging = list(mirrored.only("name", "version", "mirrored_at", "mirror_error")[:_LAGGING_SHOWN])
    _, needed = build_attention(request, now, day_of(request.user, now), _ITEMS)
    return needed | {
        "now": now,
        "queues": waiting,
        "waiting": sum(queue.waiting for queue in waiting),
        "oldest": min((q.oldest_waiting_at for q in waiting if q.oldest_waiting_at), default=None),
        "workers": states,
        "reads": reads,
        "cancellable": set(filter_cancellable(reads, request.user).values_list("pk", flat=True)),
        "here": sum(state.is_here for state in states),
        "slots": sum(state.report.slots for state in states if state.is_here),
        "busy": sum(state.busy for state in states if state.is_here),
        "spark": spark_sum(states),
        "beat_seen_at": beat_seen_at(),
        "throughput": jobs,
        "time_range": time_range,
        "label_step": _LABEL_STEPS[time_range.name],
        "chart": draw_outcomes(jobs.hours),
        "lagging": lagging,
        "unread": tables.filter(mirrored_at__isnull=True, mirror_error_code="").count(),
    }


@dataclass(frozen=True, slots=True)
class HourColumn:
    """One hour; heights in pixels, places in per cent."""

    hour: Hour
    x: float
    width: float
    well_y: float
    well_height: float
    unsuccessful_y: float
    unsuccessful_height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def mark_y(self) -> float:
        """Where the cross of an hour with aborted writes stands."""
        return self.unsuccessful_y - 14

    @property
    def start(self) -> datetime:
        return self.hour.start


@dataclass(frozen=True, slots=True)
class JobOutcomes:
    columns: tuple[HourColumn, ...]
    highest: int


def draw_outcomes(hours: Sequence[Hour]) -> JobOutcomes:
    """Draw columns of hours in order."""
    highest = max((hour.ended for hour in hours), default=0)
    step = 100 / max(len(hours), 1)
    columns = (_column(place, step, hour, highest or 1) for place, hour in enumerate(hours))
    return JobOutcomes(tuple(columns), highest)


def _column(place: int, step: float, hour: Hour, highest: int) -> HourColumn:
    well, unsuccessful = (
        max(_HEIGHT * count / highest, _LEAST) if count else 0.0
        for count in (hour.ended - hour.unsuccessful, hour.unsuccessful)
    )
    return HourColumn(
        hour=hour,
        x=place * step + step * 0.12,
        width=step * 0.76,
        well_y=_BASE - well,
        well_height=well,
        unsuccessful_y=_BASE - well - unsuccessful,
        unsuccessful_height=unsuccessful,
    )


def describe_thresholds() -> str:
    """Return the conditions that take a threshold, with the one in force."""
    described = (
        f"{condition.label.lower()}: {rule.threshold} {rule.unit}"
        for condition, rule in CONDITIONS.items()
        if rule.unit
    )
    return f"Defaults: {'; '.join(described)}. Other conditions have no threshold here."


class ChannelForm(forms.Form):
    prefix = "channel"
    name = forms.CharField(label="Name", max_length=100, help_text="on-call, data platform")
    kind = forms.ChoiceField(label="Kind", choices=AlertChannel.Kind.choices)
    target = forms.CharField(
        label="Target",
        max_length=MAX_URL,
        help_text="The webhook's URL, or e-mail addresses separated by commas.",
        widget=forms.TextInput(attrs=_MONO),
    )
    quiet_from = forms.TimeField(
        label="Quiet from", required=False, help_text="For example 22:00.", widget=forms.TimeInput
    )
    quiet_to = forms.TimeField(
        label="Quiet to",
        required=False,
        help_text="For example 06:30. Alerts during quiet hours are sent afterwards, in one "
        "message.",
    )
    zone = forms.CharField(
        label="Time zone",
        max_length=64,
        initial="UTC",
        help_text="The time zone of the quiet hours, such as Europe/Berlin.",
        widget=forms.TextInput(attrs=_MONO),
    )
    enabled = forms.BooleanField(label="Enabled", required=False, initial=True)


class ChannelChangeForm(ChannelForm):
    """The form of an existing channel: its kind stays, and its target unless another is entered."""

    kind = None  # type: ignore[assignment]
    target = forms.CharField(
        label="Another target",
        max_length=MAX_URL,
        required=False,
        help_text="The target is not shown. Leave empty to keep it.",
        widget=forms.TextInput(attrs=_MONO),
    )
    new_secret = forms.BooleanField(
        label="Create a new signing secret",
        required=False,
        help_text="Only for webhooks with JSON. The old secret becomes invalid.",
    )


class RuleForm(forms.Form):
    prefix = "rule"
    name = forms.CharField(label="Name", max_length=100, help_text="orders: aborted writes")
    condition = forms.ChoiceField(label="Condition", choices=Condition.choices)
    threshold = forms.IntegerField(
        label="Threshold",
        min_value=1,
        max_value=MAX_THRESHOLD,
        required=False,
        help_text=describe_thresholds(),
    )
    tables = forms.CharField(
        label="Tables",
        max_length=255,
        required=False,
        help_text="A pattern of table names, such as sales.*. Leave empty for every table.",
        widget=forms.TextInput(attrs=_MONO),
    )
    channel = forms.ModelChoiceField(AlertChannel.objects.all(), label="Channel")
    group_minutes = forms.IntegerField(
        label="Minutes between messages",
        min_value=0,
        max_value=MAX_GROUP_MINUTES,
        initial=5,
        help_text="Alerts in between are sent in one message.",
    )
    repeat_hours = forms.IntegerField(
        label="Repeat after hours",
        min_value=0,
        max_value=MAX_REPEAT_HOURS,
        initial=0,
        help_text="Repeat the alert while the condition holds. 0 is never.",
    )
    ignores_quiet_hours = forms.BooleanField(label="Send during quiet hours too", required=False)
    enabled = forms.BooleanField(label="Enabled", required=False, initial=True)


@never_cache
@login_required
def alerts(request: HttpRequest) -> HttpResponse:
    """Render the page; `channel` and `rule` in the query string select the one to change."""
    _require_right(
        request, "maintain", "You need the role maintainer on every table to see alerts."
    )
    channel, rule = (
        _find_row(request, AlertChannel, "channel"),
        _find_row(request, AlertRule, "rule"),
    )
    return _page(request, _channel_form(channel), _rule_form(rule), channel=channel, rule=rule)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
@sensitive_post_parameters()
@sensitive_variables("secret")
def channel_save(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """Create or change a channel, or render its form. Only this answer shows its secret."""
    _must_admin(request)
    channel = None if pk is None else get_object_or_404(AlertChannel, pk=pk)
    if request.method != "POST":
        return _page(request, _channel_form(channel), _rule_form(None), channel=channel)
    form = ChannelForm(request.POST) if channel is None else ChannelChangeForm(request.POST)
    secret = _save_channel(form, channel) if form.is_valid() else ""
    if form.errors:
        return _page(request, form, _rule_form(None), channel=channel, status=400)
    messages.success(request, f"{form.cleaned_data['name']} was saved. Send a test message.")
    if secret:
        return _page(request, ChannelForm(), _rule_form(None), secret=secret)
    return redirect("alerts")


@require_POST
@login_required
def channel_act(request: HttpRequest, pk: int) -> HttpResponse:
    """Test a channel, or remove it."""
    _must_admin(request)
    channel = get_object_or_404(AlertChannel, pk=pk)
    if request.POST.get("act") == "remove":
        channel.delete()
        messages.success(request, f"{channel.name} was removed with its rules and its outbox.")
    else:
        send_test(channel, request.user.get_username(), timezone.now())
        messages.success(request, f"A test message to {channel.name} is in the outbox.")
    return redirect("alerts")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def rule_save(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """Create or change a rule, or render its form."""
    _must_admin(request)
    rule = None if pk is None else get_object_or_404(AlertRule, pk=pk)
    if request.method != "POST":
        return _page(request, ChannelForm(), _rule_form(rule), rule=rule)
    form = RuleForm(request.POST)
    if form.is_valid():
        _save_rule(form, rule)
    if form.errors:
        return _page(request, ChannelForm(), form, rule=rule, status=400)
    messages.success(request, f"{form.cleaned_data['name']} is kept.")
    return redirect("alerts")


@require_POST
@login_required
def rule_remove(request: HttpRequest, pk: int) -> HttpResponse:
    _must_admin(request)
    rule = get_object_or_404(AlertRule, pk=pk)
    rule.delete()
    messages.success(request, f"{rule.name} is removed.")
    return redirect("alerts")


def _page(
    request: HttpRequest,
    channel_form: forms.Form,
    rule_form: forms.Form,
    status: int = 200,
    **shown: Any,  # noqa: ANN401 - of the template
) -> HttpResponse:
    context = {
        "channels": AlertChannel.objects.all(),
        "rules": AlertRule.objects.select_related("channel"),
        "deliveries": AlertDelivery.objects.select_related("channel", "rule")[:_SHOWN],
        "conditions": {condition.value: rule for condition, rule in CONDITIONS.items()},
        "may_edit": may(request.user, "admin"),
        "to_remove": _find_row(request, AlertChannel, "remove"),
        "rule_to_remove": _find_row(request, AlertRule, "remove_rule"),
        "twin": "/api/v1/monitoring/alerts/",
    }
    context |= {"channel_form": channel_form, "rule_form": rule_form} | shown
    return render(request, "monitoring/alerts.html", context, status=status)


def _channel_form(channel: AlertChannel | None) -> forms.Form:
    return ChannelChangeForm(initial=_values_of(channel)) if channel else ChannelForm()


def _rule_form(rule: AlertRule | None) -> forms.Form:
    channels = AlertChannel.objects.values_list("pk", flat=True)[:2]
    only = {"channel": channels[0]} if len(channels) == 1 else {}
    return RuleForm(initial=_values_of(rule) if rule else only)


def _values_of(row: AlertChannel | AlertRule) -> dict[str, Any]:
    fields = [field for field in row._meta.get_fields() if field.concrete]
    return {field.name: getattr(row, field.name) for field in fields}


def _find_row(request: HttpRequest, model: type[_Row], key: str) -> _Row | None:
    """Return the row in the address, None if it names none."""
    text = request.GET.get(key, "")
    is_id = is_row_id(text)
    return model.objects.filter(pk=int(text)).first() if is_id else None


def _save_channel(form: forms.Form, channel: AlertChannel | None) -> str:
    values = dict(form.cleaned_data)
    if channel is not None and not values["target"]:
        del values["target"]
    try:
        return make_channel(values)[1] if channel is None else change_channel(channel, values)
    except EngineError as error:
        _blame(form, error)
        return ""


def _save_rule(form: forms.Form, rule: AlertRule | None) -> None:
    try:
        if rule is None:
            make_rule(form.cleaned_data)
        else:
            change_rule(rule, form.cleaned_data)
    except EngineError as error:
        _blame(form, error)


def _blame(form: forms.Form, error: EngineError) -> None:
    field = str(getattr(error, "field", ""))
    form.add_error(field if field in form.fields else None, str(error))


def _must_admin(request: HttpRequest) -> None:
    _require_right(request, "admin", "Only admins of every table can set up alerts.")
    refuse_when_read_only()


def _require_right(request: HttpRequest, action: str, otherwise: str) -> None:
    if not may(request.user, action):
        raise PermissionDenied(otherwise)
