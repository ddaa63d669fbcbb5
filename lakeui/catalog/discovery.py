"""Tables found below a root by listing its directories; registered by choice.

Directories are examined depth first and by name, so that the last one marks the progress of a
search. A directory with files in `_delta_log` is a table, and everything below it is its own.
Directories that begin with `_` or `.`, and those of partitions (`day=1`), are not entered.

The unregistered tables of a repeated search are reported until they are registered or dismissed.
They outlive their round, so that nothing is reported as over while the next round runs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from time import monotonic

from auditlog.models import LogEntry
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from engine.errors import EngineError, RequestError, StorageError
from engine.storage.base import Store
from engine.storage.directories import child_directories, has_files
from engine.storage.uri import open_store
from lakeui.catalog.access import may
from lakeui.catalog.models import DiscoveredTable, Discovery, Table, UnregisteredTable
from lakeui.catalog.registration import LONGEST_PLACE, NAME_PARTS, name_place, request_registration
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.catalog.syncs import nobody_at_it
from lakeui.celery import app
from lakeui.task_names import DISCOVER_TABLES, LIGHT_QUEUE

DEEPEST = 12
MOST_FOUND = 10_000  # of one search
MOST_KEPT = 20  # searches
MOST_REPEATED = 20  # repeated searches
MOST_REGISTERED = 500  # at once
MOST_BOUNDS = 50  # of directories, in one round of a repeated search
MOST_HOURS = 24 * 365
PATIENCE = timedelta(minutes=2)
"""How long a silent worker may still be listing."""
SLICE_S = 20.0
_BATCH = 200

_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Directory:
    """An examined directory, by its path below the root; `problem`: it cannot be listed."""

    path: str
    is_table: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """The result of registering: the registered tables, and other tables' errors by location."""

    tables: list[Table] = field(default_factory=list)
    refused: dict[str, EngineError] = field(default_factory=dict)


def iter_directories(store: Store, after: str = "") -> Iterator[Directory]:
    """Iterate over directories below a store's root after a path; only the root of a table."""
    if not after and _is_table(store, ""):
        yield Directory("", is_table=True)
        return
    yield from _walk_below(store, "", after.split("/") if after else [], DEEPEST)


def check_search(root: str, naming: str) -> str:
    """Return the canonical spelling of a root to search.

    Raises:
        RequestError: it lies under no root of `TABLE_ROOTS`, or the naming names nothing.
    """
    if not root.strip():
        msg = "No root was given."
        raise RequestError(msg, "Enter a directory or URL under TABLE_ROOTS.", field="root")
    if not NAME_PARTS.search(naming) or not naming.isprintable():
        msg = "The name pattern contains none of {path}, {name} and {parent}."
        raise RequestError(msg, "Use {path}, or sales.{name}.", field="naming")
    return check_table_uri(root.strip(), field="root")


def request_discovery(
    root: str,
    match: str,
    naming: str,
    by: User | None,
    *,
    every_hours: int | None = None,
    registers: bool = False,
) -> Discovery:
    """Have a light worker search, once or repeatedly.

    Args:
        root: a location under TABLE_ROOTS.
        match: a pattern of paths; blank fits all.
        naming: the names of tables.
        by: the requester, who also registers the tables.
        every_hours: hours from its end until the search is repeated.
        registers: whether the tables of a complete search are registered.

    Raises:
        RequestError: as `check_search`; or too many searches are repeated.
    """
    place = check_search(root, naming)
    repeated = Discovery.objects.filter(every_hours__isnull=False)
    if every_hours is not None and repeated.count() >= MOST_REPEATED:
        msg = f"{MOST_REPEATED} repeated searches already exist."
        raise RequestError(msg, "Remove one.", field="every_hours")
    with transaction.atomic():
        once = Discovery.objects.filter(every_hours=None)
        kept = list(once.values_list("pk", flat=True)[: MOST_KEPT - 1])
        once.exclude(pk__in=kept).delete()
        discovery = Discovery.objects.create(
            root=place,
            match=match,
            naming=naming,
            every_hours=every_hours,
            registers=registers,
            requested_by=by,
            requested_at=timezone.now(),
            bound=settings.DISCOVER_MAX_DIRECTORIES,
        )
        transaction.on_commit(lambda: wake(discovery.pk), robust=True)
    return discovery


def repeat_due(now: datetime) -> int:
    """Begin the due repeated searches; return how many. A search that stopped at a limit continues.

    It continues at once, until one round of it has examined `MOST_BOUNDS` times the limit.
    """
    if settings.READ_ONLY:
        return 0
    ended = Discovery.objects.filter(every_hours__isnull=False, finished_at__isnull=False)
    return sum(_repeat_discovery(discovery, now) for discovery in ended)


def _repeat_discovery(discovery: Discovery, now: datetime) -> bool:
    ended = discovery.finished_at
    if _goes_on(discovery):
        go_on(discovery)
        return True
    if ended is None or ended + timedelta(hours=discovery.every_hours or 0) > now:
        return False
    if not discovery.is_complete:
        go_on(discovery)
        return True
    with transaction.atomic():
        mine = Discovery.objects.filter(pk=discovery.pk, finished_at=ended)
        anew = {"cursor": "", "examined": 0, "unreadable": 0, "problem": "", "is_complete": False}
        bound = settings.DISCOVER_MAX_DIRECTORIES
        if not mine.update(requested_at=now, finished_at=None, seen_at=None, bound=bound, **anew):
            return False  # another scheduler was first
        discovery.tables.all().delete()
        transaction.on_commit(lambda: wake(discovery.pk), robust=True)
    return True


def _goes_on(discovery: Discovery) -> bool:
    """Return whether it stopped at its limit, not at an unreachable root or at too many tables."""
    examined = discovery.examined + discovery.unreadable
    return (
        not discovery.is_complete
        and discovery.bound <= examined < MOST_BOUNDS * settings.DISCOVER_MAX_DIRECTORIES
        and discovery.tables.count() < MOST_FOUND
    )


def go_on(discovery: Discovery) -> None:
    """Allow a search that stopped at a limit to examine as many directories again."""
    rests = Discovery.objects.filter(pk=discovery.pk, finished_at__isnull=False, is_complete=False)
    more = F("examined") + F("unreadable") + settings.DISCOVER_MAX_DIRECTORIES
    if rests.update(finished_at=None, seen_at=None, bound=more, problem=""):
        transaction.on_commit(lambda: wake(discovery.pk), robust=True)


def wake(discovery_id: int) -> None:
    """Send a search to a light worker. Without a broker the sweeper does, later."""
    try:
        app.send_task(DISCOVER_TABLES, [discovery_id], queue=LIGHT_QUEUE, expires=60)
    except (OperationalError, OSError):
        return


def wake_all() -> None:
    """Send searches without a worker: it died, or the broker was unreachable."""
    idle = nobody_at_it(timezone.now(), PATIENCE)
    for pk in Discovery.objects.filter(idle, finished_at=None).values_list("pk", flat=True):
        wake(pk)


def search(discovery_id: int, seconds: float = SLICE_S) -> bool:
    """Search for a while, unless another worker does; return whether there is more."""
    now = timezone.now()
    idle = nobody_at_it(now, PATIENCE)
    mine = Discovery.objects.filter(idle, pk=discovery_id, finished_at=None)
    if not mine.update(seen_at=now):
        return False
    discovery = Discovery.objects.filter(pk=discovery_id).first()
    if discovery is None:  # deleted meanwhile
        return False
    try:
        return _search(discovery, monotonic() + seconds)
    except Discovery.DoesNotExist:  # or just now
        return False
    except EngineError as error:  # the root is unreachable, or no longer allowed
        _write(discovery, finished_at=timezone.now(), problem=str(error)[:1000])
        return False


def register_found(
    places: Iterable[tuple[str, str]], by: User | None, register: Callable[..., Table] | None = None
) -> RegistrationResult:
    """Register tables by location and name; a refused table does not stop the others."""
    done = RegistrationResult()
    for place, name in places:
        try:
            done.tables.append((register or request_registration)(place, name, by))
        except EngineError as error:
            done.refused[place] = error
    return done


def not_registered(discovery: Discovery) -> list[DiscoveredTable]:
    """Return the unregistered tables of a search."""
    registered = set(Table.objects.values_list("uri", flat=True))
    return [row for row in discovery.tables.all() if row.place not in registered]


def place_of(root: str, path: str) -> str:
    """Return a table's location."""
    return f"{root.rstrip('/')}/{path}" if path else root


def matches(path: str, pattern: str) -> bool:
    """Whether a path below the root fits the pattern; blank fits all."""
    return fnmatchcase(path, pattern or "*")


def _search(discovery: Discovery, until: float) -> bool:
    root = check_table_uri(discovery.root, field="root")
    directories = iter_directories(open_store(root, storage_options(root)), discovery.cursor)
    batch: list[Directory] = []
    left = discovery.bound - discovery.examined - discovery.unreadable
    for directory in directories:
        batch.append(directory)
        is_full = len(batch) >= left
        if is_full or len(batch) >= _BATCH or monotonic() >= until:
            left -= len(batch)
            found_count = _keep(discovery, batch)
            batch = []
            if is_full or found_count >= MOST_FOUND:
                _write(discovery, finished_at=timezone.now())
                return False
            if monotonic() >= until:
                _write(discovery, seen_at=None)
                return True
    _keep(discovery, batch)
    problem = _register_new(discovery) if discovery.registers else ""
    if discovery.every_hours is not None:
        taken_off = _list_unregistered_places()
        new = [row.place for row in not_registered(discovery) if row.place not in taken_off]
        keep_unregistered(discovery, new, timezone.now())
    told = {"problem": problem[:1000]} if problem else {}
    _write(discovery, finished_at=timezone.now(), is_complete=True, **told)
    return False


def _register_new(discovery: Discovery) -> str:
    """Register new tables for the search's requester; return the problem in words."""
    by = discovery.requested_by
    if settings.READ_ONLY or by is None or not may(by, "maintain"):
        return (
            "Nothing was registered, because the person who requested this may no longer "
            "register tables."
        )
    taken_off = _list_unregistered_places()
    unregistered = not_registered(discovery)
    new = [row for row in unregistered if row.place not in taken_off][:MOST_REGISTERED]
    done = register_found([(row.place, row.name) for row in new], by)
    for error in done.refused.values():
        return f"{len(done.refused)} of {len(new)} tables were not registered. For example: {error}"
    return ""


def _list_unregistered_places() -> set[str]:
    """Return the locations of tables that somebody unregistered, from the audit log."""
    entries = LogEntry.objects.get_for_model(Table).filter(action=LogEntry.Action.DELETE)
    return set(entries.values_list("changes__place__0", flat=True))


def _keep(discovery: Discovery, batch: list[Directory]) -> int:
    """Store examined directories and progress in one transaction; return the number of tables."""
    fitting = [one for one in batch if one.is_table and matches(one.path, discovery.match)]
    tables = [
        DiscoveredTable(
            discovery=discovery,
            place=place,
            name=name_place(place, discovery.naming, discovery.root),
        )
        for one in fitting
        if len(place := place_of(discovery.root, one.path)) <= LONGEST_PLACE
    ]
    problems = [one.problem for one in batch if one.problem]
    if len(tables) < len(fitting):
        problems.append(f"The path of a table has more than {LONGEST_PLACE} characters.")
    with transaction.atomic():
        Discovery.objects.select_for_update().get(pk=discovery.pk)
        DiscoveredTable.objects.bulk_create(tables, ignore_conflicts=True)
        discovery.examined += len(batch) - len(problems)
        discovery.unreadable += len(problems)
        discovery.cursor = batch[-1].path if batch else discovery.cursor
        _write(
            discovery,
            examined=discovery.examined,
            unreadable=discovery.unreadable,
            cursor=discovery.cursor,
            seen_at=timezone.now(),
            **({"problem": problems[-1][:1000]} if problems else {}),
        )
    return discovery.tables.count()


def _write(discovery: Discovery, **fields: object) -> None:
    Discovery.objects.filter(pk=discovery.pk).update(**fields)


def _walk_below(store: Store, directory: str, after: list[str], depth: int) -> Iterator[Directory]:
    try:
        names = child_directories(store, directory)
    except StorageError as error:
        if not directory:
            raise
        yield Directory(directory, problem=str(error))
        return
    for name in names:
        if _is_inner(name) or (after and name < after[0]):
            continue
        path = f"{directory}/{name}" if directory else name
        if after and name == after[0]:  # examined already; directories below it may not be
            if depth > 1 and (after[1:] or _may_hold_tables(store, path)):
                yield from _walk_below(store, path, after[1:], depth - 1)
        elif (told := _replace_invalid_utf8(path)) != path:
            yield Directory(told, problem=f"The name of the directory {told} is not valid UTF-8.")
        else:
            yield from _examine_directory(store, path, depth)


def _examine_directory(store: Store, path: str, depth: int) -> Iterator[Directory]:
    try:
        is_table = _is_table(store, path)
    except StorageError as error:
        yield Directory(path, problem=str(error))
        return
    yield Directory(path, is_table=is_table)
    if not is_table and depth > 1:
        yield from _walk_below(store, path, [], depth - 1)


def _may_hold_tables(store: Store, path: str) -> bool:
    """Return whether a directory can be listed and is no table; errors were reported before."""
    try:
        return not _is_table(store, path)
    except StorageError:
        return False


def _replace_invalid_utf8(path: str) -> str:
    """Return the path as a database takes it. A changed name sorts later than the original."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _is_table(store: Store, path: str) -> bool:
    return has_files(store, f"{path}/_delta_log" if path else "_delta_log")


def _is_inner(name: str) -> bool:
    return name.startswith(("_", ".")) or "=" in name


def keep_unregistered(discovery: Discovery, places: Collection[str], now: datetime) -> None:
    """Store the unregistered tables of a complete round; delete those that it no longer found."""
    unregistered = set(places)
    with transaction.atomic():
        kept = dict(discovery.unregistered_tables.values_list("place", "pk"))
        gone = [pk for place, pk in kept.items() if place not in unregistered]
        for start in range(0, len(gone), _ROWS_AT_ONCE):
            UnregisteredTable.objects.filter(pk__in=gone[start : start + _ROWS_AT_ONCE]).delete()
        UnregisteredTable.objects.bulk_create(
            [
                UnregisteredTable(discovery=discovery, place=place, found_at=now)
                for place in places
                if place not in kept
            ],
            batch_size=_ROWS_AT_ONCE,
            ignore_conflicts=True,
        )


def list_attention_tables() -> QuerySet[UnregisteredTable]:
    """Return tables that need attention: neither registered nor dismissed."""
    registered = Table.objects.filter(uri=OuterRef("place"))
    return UnregisteredTable.objects.filter(~Exists(registered), is_dismissed=False)


def dismiss(discovery: Discovery) -> int:
    """Dismiss the results so far of a search; return how many. Later ones need attention."""
    here = list_attention_tables().filter(discovery=discovery).values("pk")
    return UnregisteredTable.objects.filter(pk__in=here).update(is_dismissed=True)


def dismiss_place(place: str) -> None:
    """Dismiss an unregistered table, as `dismiss` does, in every search."""
    UnregisteredTable.objects.filter(place=place).update(is_dismissed=True)
