"""The explorer as one application: pages, their templates and what these need, behind the guard.

In: a :class:`~.followed_store.FollowedStore`. Out: an application of ASGI, for uvicorn or any other server. A page is
read in a thread, in a session of its own; what kvstore refuses is shown as the sentence that kvstore has for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ...errors import (
    ClosedError,
    DocumentNotFoundError,
    EntityNotFoundError,
    InputError,
    KvstoreError,
    QueryInterruptedError,
    StatementError,
    StoreNotFoundError,
)
from ...extras import required

required("starlette", "explore", "the explorer")
required("jinja2", "explore", "the explorer")

from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import Response, StreamingResponse  # noqa: E402
from starlette.routing import Mount, Route  # noqa: E402
from starlette.staticfiles import StaticFiles  # noqa: E402

from . import entity_page, map_page, overview_page  # noqa: E402
from .addresses import document_address, entity_address, page_address, places_address  # noqa: E402
from .followed_store import FollowedStore  # noqa: E402
from .guard import Guard  # noqa: E402
from .page import ExplorerPage, PageContent, PageForm, PageRequest  # noqa: E402

#: Every page; those with a label stand in the navigation, in this order.
PAGES: tuple[ExplorerPage, ...] = (overview_page.PAGE, entity_page.PAGE, map_page.PAGE)

_STATIC = Path(__file__).parent / "static"
_JSON = "application/json"
_STATUSES: tuple[tuple[type[KvstoreError], int], ...] = (
    (DocumentNotFoundError, 404),
    (EntityNotFoundError, 404),
    (InputError, 400),
    (StatementError, 400),
    (QueryInterruptedError, 503),
    (StoreNotFoundError, 503),
    (ClosedError, 503),
)


def explorer(store: FollowedStore, *, token: str, port: int) -> Guard:
    """The explorer of a store, for whoever gives the token, at this port of 127.0.0.1."""
    routes: list[Any] = [Mount("/static", StaticFiles(directory=_STATIC))]
    for page in PAGES:
        for suffix in ("", ".json", *page.forms):
            address = "/index" if page.address == "/" and suffix else page.address
            if not page.named:
                routes.append(Route(address + suffix, _endpoint(store, page, suffix)))
        if page.named:
            routes.append(Route(page.address + "{name:path}", _endpoint(store, page, None)))

    async def missing(request: Request, _: Exception) -> Response:
        return _shown_error(store, request, 404, "There is no page at this address.")

    application = Starlette(routes=routes, exception_handlers={404: missing})
    return Guard(application, token, [f"127.0.0.1:{port}", f"localhost:{port}"])


def _endpoint(store: FollowedStore, page: ExplorerPage, suffix: str | None) -> Any:
    """What answers requests for a page in one form; None: that which the name asked for, or the request, says."""

    async def answer(request: Request) -> Response:
        return await run_in_threadpool(_answered, store, page, suffix, request)

    return answer


def _answered(store: FollowedStore, page: ExplorerPage, suffix: str | None, request: Request) -> Response:
    # A page that is sent in pieces is read until it has been sent: its session ends then.
    with ExitStack() as opened:
        try:
            session = opened.enter_context(store.session())
            name = request.path_params.get("name", "") or request.query_params.get("name", "")
            if suffix is None:
                name, suffix = _parted(page, session, name)
            if suffix == "" and request.headers.get("accept", "").startswith(_JSON):
                suffix = ".json"
            arguments = request.query_params.multi_items()
            asked = PageRequest(session, name, arguments, whole=suffix != "")
            if suffix in page.forms:
                return _in_form(page.forms[suffix], asked, opened)
            content = page.content(asked)
            if suffix == ".json":
                return Response(as_json(content), media_type=_JSON)
            shown = template(page.template).generate(_variables(store, page, request, name, content))
            if not page.in_pieces:
                return Response("".join(shown), media_type="text/html")
            return StreamingResponse(iterate_in_threadpool(_closing(shown, opened.pop_all())), media_type="text/html")
        except KvstoreError as error:
            status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
            return _shown_error(store, request, status, str(error), as_data=suffix not in ("", None))


def _parted(page: ExplorerPage, session: Any, name: str) -> tuple[str, str]:
    """A name, and the form that is asked for of its page."""
    for suffix in (".json", *page.forms):
        if name.endswith(suffix) and not page.exists(session, name):
            return name.removesuffix(suffix), suffix
    return name, ""


def _in_form(form: PageForm, asked: PageRequest, opened: ExitStack) -> Response:
    made = form.make(asked)
    headers = {} if form.file_name is None else {"content-disposition": f'attachment; filename="{form.file_name}"'}
    if isinstance(made, str | bytes):
        return Response(made, media_type=form.media_type, headers=headers)
    pieces = iterate_in_threadpool(_closing(made, opened.pop_all()))
    return StreamingResponse(pieces, media_type=form.media_type, headers=headers)


def _closing(pieces: Iterable[str], opened: ExitStack) -> Iterator[str]:
    with opened:
        yield from pieces


def _shown_error(
    store: FollowedStore, request: Request, status: int, sentence: str, *, as_data: bool = False
) -> Response:
    if as_data or request.url.path.endswith(".json") or request.headers.get("accept", "").startswith(_JSON):
        return Response(as_json({"error": sentence}), status, media_type=_JSON)
    page = ExplorerPage("", lambda asked: {}, "error.html")
    variables = _variables(store, page, request, "", {"status": status, "sentence": sentence})
    return Response(template(page.template).render(variables), status, media_type="text/html")


def as_json(content: Any) -> str:
    """The content of a page as JSON; bytes are hexadecimal, as they are where a result of the shell is JSON."""
    return json.dumps(content, ensure_ascii=False, default=lambda value: value.hex())


def _variables(
    store: FollowedStore, page: ExplorerPage, request: Request, name: str, content: PageContent
) -> dict[str, Any]:
    """What a template sees beside the content of its page."""
    address = page.address if not page.named else request.url.path
    data = ("/index" if address == "/" else address) + ".json"
    asked = request.query_params.multi_items()
    return {
        "page": page,
        "pages": [listed for listed in PAGES if listed.label is not None],
        "store_name": store.path.resolve().name,
        "json_address": f"{data}?{urlencode(asked)}" if asked else data,
        **content,
    }


@cache
def template(name: str) -> Any:
    """A template, with all that templates may use."""
    return _templates().get_template(name)


@cache
def _templates() -> Any:
    # Nothing that a document holds is markup: every value is escaped, whatever the template is called.
    templates = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {
        "document_address": document_address,
        "entity_address": entity_address,
        "page_address": page_address,
        "places_address": places_address,
        "static": _static_address,
    }
    templates.filters |= {"number": _number, "size": _size, "when": _when, "percent": _percent}
    return templates


@cache
def _static_address(name: str) -> str:
    """The address of a file of ours, another one when the file is another."""
    return f"/static/{name}?{hashlib.sha256((_STATIC / name).read_bytes()).hexdigest()[:12]}"


def _number(value: float, places: int = 2) -> str:
    """A number as people read it: a thin space between thousands, few places."""
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    return f"{value:,.{places}f}".replace(",", "\u202f")


def _size(count: int) -> str:
    """So many bytes, as people say it."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.3g} {unit}" if size < 999.5 else f"{size:.0f} {unit}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _when(moment: str, now: datetime | None = None) -> str:
    """A moment in ISO 8601, UTC, as people say it."""
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    now = now or datetime.now(UTC)
    seconds = (now - then).total_seconds()
    for least, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if 7 * 86400 > seconds >= least:
            count = int(seconds // least)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now" if 0 <= seconds < 60 else f"{then:%Y-%m-%d %H:%M}"
