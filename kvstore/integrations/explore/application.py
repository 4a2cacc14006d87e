"""The explorer's ASGI application: its pages and templates, behind the guard. A page has several *representations*, one
for each *suffix* of its URL: HTML (no suffix), ``.json``, others such as ``.csv``. The path of a *named* page ends with
the name of the object that it shows, such as ``/doc/tea``.

In: a :class:`~.followed_store.FollowedStore`. Out: an ASGI application for uvicorn or another server. Each request runs
in a thread with its own session. Errors of kvstore are shown with their message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import kvstore

from ...errors import (
    ClosedError,
    DocumentNotFoundError,
    EntityNotFoundError,
    InputError,
    KvstoreError,
    QueryInterruptedError,
    ResultTooLargeError,
    StatementError,
    StoreNotFoundError,
)
from ...extensions.extras import import_extra

import_extra("starlette", "explore", "the explorer")
import_extra("jinja2", "explore", "the explorer")

from starlette.applications import Starlette  # noqa: E402
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import Response, StreamingResponse  # noqa: E402
from starlette.routing import Mount, Route  # noqa: E402
from starlette.staticfiles import StaticFiles  # noqa: E402

from . import (  # noqa: E402
    ask_page,
    communities_page,
    compare_page,
    document_page,
    documents_page,
    entity_page,
    health_page,
    map_page,
    names_page,
    overview_page,
    sql_page,
    topics_page,
    trees_page,
)
from .followed_store import FollowedStore  # noqa: E402
from .guard import Guard  # noqa: E402
from .page import ExplorerPage, PageContent, PageRepresentation, PageRequest  # noqa: E402
from .rendering import STATIC, get_template  # noqa: E402
from .urls import add_query, build_path, can_be_path  # noqa: E402

#: All pages; those with a label appear in the navigation in this order.
PAGES: tuple[ExplorerPage, ...] = (
    overview_page.PAGE,
    ask_page.PAGE,
    compare_page.PAGE,
    documents_page.PAGE,
    document_page.PAGE,
    names_page.PAGE,
    entity_page.PAGE,
    trees_page.PAGE,
    trees_page.TREE_PAGE,
    topics_page.PAGE,
    topics_page.TOPIC_PAGE,
    communities_page.PAGE,
    communities_page.COMMUNITY_PAGE,
    map_page.PAGE,
    sql_page.PAGE,
    health_page.PAGE,
)

_JSON_TYPE = "application/json"
#: The HTTP status of a response for each class of errors.
_ERROR_STATUSES: tuple[tuple[type[KvstoreError], int], ...] = (
    (DocumentNotFoundError, 404),
    (EntityNotFoundError, 404),
    (InputError, 400),
    (StatementError, 400),
    (ResultTooLargeError, 413),
    (QueryInterruptedError, 503),
    (StoreNotFoundError, 503),
    (ClosedError, 503),
)


def make_explorer(store: FollowedStore, *, token: str, port: int) -> Guard:
    """Return the ASGI application that shows a store to clients with the ``token``, at ``port`` of 127.0.0.1."""
    routes: list[Any] = [Mount("/static", StaticFiles(directory=STATIC))]
    for page in PAGES:
        if page.is_named:  # the path ends with a name, and the suffix of a representation follows the name
            routes.append(Route(page.url + "{name:path}", _make_endpoint(store, page, suffix=None)))
            continue
        for suffix in ("", ".json", *page.representations):
            url = "/index" if page.url == "/" and suffix else page.url  # such as /index.json
            method = page.representations[suffix].method if suffix in page.representations else "GET"
            routes.append(Route(url + suffix, _make_endpoint(store, page, suffix), methods=[method]))

    async def respond_not_found(request: Request, _: Exception) -> Response:
        """Respond with an error page of status 404 to a URL without a page."""
        return _render_error(store, request, 404, "There is no page at this URL.")

    application = Starlette(routes=routes, exception_handlers={404: respond_not_found})
    return Guard(application, token, port)


def _make_endpoint(store: FollowedStore, page: ExplorerPage, suffix: str | None) -> Any:
    """Return the request handler of a page in the representation ``suffix`` (None: the request's path selects it)."""

    async def respond(request: Request) -> Response:
        """Build the response to a request in a thread."""
        return await run_in_threadpool(_build_response, store, page, suffix, request)

    return respond


def _build_response(store: FollowedStore, page: ExplorerPage, suffix: str | None, request: Request) -> Response:
    """Build the response to a request for a page, in a new session. A kvstore error becomes an error page, or JSON.

    ``suffix`` selects the representation of the page (None: the path selects it). The session of a streamed page ends
    when the page has been sent.
    """
    with ExitStack() as stack:
        try:
            session = stack.enter_context(store.open_session())
            name = request.path_params.get("name", "")
            if suffix is None:
                name, suffix = _split_name(page, session, name, request)
            if suffix == "" and request.headers.get("accept", "").startswith(_JSON_TYPE):
                suffix = ".json"
            arguments = request.query_params.multi_items()
            page_request = PageRequest(session, name, arguments, as_data=suffix != "", bounded_queries=store.calls)
            if suffix in page.representations:
                return _render_representation(page.representations[suffix], page_request, stack)
            content = page.build_content(page_request)
            if suffix == ".json":
                return Response(format_json(content), media_type=_JSON_TYPE)
            html_pieces = get_template(page.template).generate(
                _build_variables(store, session, page, request, name, content)
            )
            status = 400 if "invalid" in content else 200
            is_streamed = any(isinstance(value, Iterator) for value in content.values())
            if not is_streamed:
                return Response("".join(html_pieces), status, media_type="text/html")
            # The iterators read the store while the page is sent, so the response takes over the session.
            return StreamingResponse(
                iterate_in_threadpool(_stream_and_close(html_pieces, stack.pop_all())), status, media_type="text/html"
            )
        except KvstoreError as error:
            status = next((status for error_type, status in _ERROR_STATUSES if isinstance(error, error_type)), 500)
            return _render_error(store, request, status, str(error), as_data=suffix not in ("", None))


def _split_name(page: ExplorerPage, session: kvstore.Store, name: str, request: Request) -> tuple[str, str]:
    """Return the name of the object that a named page shows, and the suffix of its representation ('' for HTML).

    ``name``, the end of the path, is the object's name, optionally with a suffix. It is empty if a path cannot express
    the object's name; the URL's arguments ``name`` and ``form`` then contain name and suffix.
    """
    if not name:
        suffix = request.query_params.get("form", "")
        return request.query_params.get("name", ""), suffix if suffix in (".json", *page.representations) else ""
    for suffix in (".json", *page.representations):
        if name.endswith(suffix) and not page.exists(session, name):  # an object can be called package.json
            return name.removesuffix(suffix), suffix
    return name, ""


def _render_representation(representation: PageRepresentation, page_request: PageRequest, stack: ExitStack) -> Response:
    """Return the response with a representation of a page other than HTML and JSON, such as CSV.

    If it is an iterator of texts, it is streamed, and ``stack``, which holds the session, is closed at the end.
    """
    body = representation.make(page_request)
    file_name = representation.file_name
    headers = {} if file_name is None else {"content-disposition": f'attachment; filename="{file_name}"'}
    if isinstance(body, str | bytes):
        return Response(body, media_type=representation.media_type, headers=headers)
    texts = iterate_in_threadpool(_stream_and_close(body, stack.pop_all()))
    return StreamingResponse(texts, media_type=representation.media_type, headers=headers)


def _stream_and_close(texts: Iterable[str], stack: ExitStack) -> Iterator[str]:
    """Yield the texts of a response, then close ``stack``, which holds the session, even if the stream ends early."""
    with stack:
        yield from texts


def _render_error(
    store: FollowedStore, request: Request, status: int, message: str, *, as_data: bool = False
) -> Response:
    """Return an error with an HTTP ``status`` as a page, or as JSON if ``as_data`` or if the request asks for JSON."""
    if as_data or request.url.path.endswith(".json") or request.headers.get("accept", "").startswith(_JSON_TYPE):
        return Response(format_json({"error": message}), status, media_type=_JSON_TYPE)
    page = ExplorerPage("", lambda request: {}, "error.html")
    content = {"status": status, "message": message}
    variables = _build_variables(store, session=None, page=page, request=request, name="", content=content)
    return Response(get_template(page.template).render(variables), status, media_type="text/html")


def format_json(content: Any) -> str:
    """Format the content of a page as JSON; bytes are hexadecimal, as in the shell's JSON."""
    return json.dumps(content, ensure_ascii=False, default=lambda value: value.hex())


def _build_variables(
    store: FollowedStore,
    session: kvstore.Store | None,
    page: ExplorerPage,
    request: Request,
    name: str,
    content: PageContent,
) -> dict[str, Any]:
    """Return the template variables of a page, including its content.

    ``name`` is the object in the URL of a named page. An error page has no ``session``. The templates build links to
    other representations of the page with ``in_form``, and with other arguments with ``with_arguments``.
    """
    # The links on the page repeat its arguments, except those that select the object, its representation or one run.
    arguments = [
        (argument, value)
        for argument, value in request.query_params.multi_items()
        if argument not in ("name", "form", "run")
    ]
    urls = _PageUrls(page, session, name, arguments)
    return {
        "page": page,
        "pages": [other_page for other_page in PAGES if other_page.label is not None],
        "store_name": store.path.resolve().name,
        "here": urls.path,
        "in_form": urls.build_in_form,
        "with_arguments": urls.build_with_arguments,
        "json_url": urls.build_in_form(".json"),
        **content,
    }


@dataclass(frozen=True)
class _PageUrls:
    """Builds the URLs of a page that shows the object ``name``: in other representations, and with other ``arguments``.
    An error page has no ``session``.
    """

    page: ExplorerPage
    session: kvstore.Store | None
    name: str
    arguments: Sequence[tuple[str, str]]

    @property
    def path(self) -> str:
        """The page's URL without arguments, except for a name that a path cannot express."""
        return build_path(self.page.url, self.name) if self.page.is_named else self.page.url

    def build_in_form(self, suffix: str) -> str:
        """Return the URL of the page in the representation with this suffix, such as ``.json``.

        ``suffix`` becomes an argument if a path cannot express the name, or if the name with it is another object.
        """
        if not self.page.is_named:
            return add_query(("/index" if self.path == "/" else self.path) + suffix, self.arguments)
        name_in_form = self.name + suffix
        if not can_be_path(self.name) or (self.session is not None and self.page.exists(self.session, name_in_form)):
            return add_query(self.page.url, [("name", self.name), ("form", suffix), *self.arguments])
        return add_query(build_path(self.page.url, name_in_form), self.arguments)

    def build_with_arguments(self, *, facet: str | None = None, without: str | None = None, **changed: Any) -> str:
        """Return the URL of the page with changed arguments, ``facet`` added and the facet ``without`` removed.

        A facet is a metadata field and a value, as JSON. Empty arguments, and those changed to None, are removed.
        """
        kept_arguments = [(argument, value) for argument, value in self.arguments if value and argument not in changed]
        new_arguments = [pair for pair in kept_arguments if pair != ("facet", without)]
        new_arguments += [(argument, str(value)) for argument, value in changed.items() if value is not None]
        if facet is not None and ("facet", facet) not in new_arguments:
            new_arguments.append(("facet", facet))
        return add_query(self.path, new_arguments)
