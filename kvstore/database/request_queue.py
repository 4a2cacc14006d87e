"""The queue of the requests of an EXTRACT, which asks a model for texts about passages of documents.
The size of the requests adapts to the model's answers. A request maps the digest (hash) of each passage to the key of a
document that contains it.

In: requests for texts about passages, and which passages of a request got a text. Out: the next request.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Container, Iterable, Mapping

#: The minimum number of consecutive complete answers after which requests can have twice as many passages.
_ANSWERS_TO_GROW = 4
#: The passages of a request: their digests, each with the document that it is requested as part of.
Request = Mapping[bytes, str]


class RequestQueue:
    """The requests to send, with the maximum number of passages in one request, which depends on the answers.

    The maximum is halved if a request has several passages and fewer than half of them get a text. It is doubled after
    several consecutive complete answers; each reduction doubles the number of these. A weak model soon gets one passage
    per request.
    """

    def __init__(self, requests: Iterable[Request]) -> None:
        """Queue ``requests``; the largest sets the initial maximum number of passages."""
        self._requests = deque(requests)
        self._max_passages = max(map(len, self._requests), default=1)
        #: The number of consecutive complete answers to requests of the maximum size.
        self._num_complete_answers = 0
        #: The number of such answers after which the maximum is doubled.
        self._answers_to_grow = _ANSWERS_TO_GROW

    def __len__(self) -> int:
        """Return the number of requests in the queue."""
        return len(self._requests)

    def take_next(self) -> Request:
        """Remove and return the next request, which maps the digest of each passage to the key of a document with it.

        If the next request has too many passages, only its first passages are returned; the others stay in the queue.
        """
        passages = list(self._requests.popleft().items())
        num_requests = math.ceil(len(passages) / self._max_passages)
        size = math.ceil(len(passages) / num_requests)  # requests of about equal size
        if size < len(passages):
            self._requests.appendleft(dict(passages[size:]))
        return dict(passages[:size])

    def record_answer(self, request: Request, answered_digests: Container[bytes]) -> None:
        """Adapt the maximum size of a request to its answer, which has texts for some of the passages.

        ``answered_digests`` are the digests of these passages. If most texts are missing, the maximum becomes half the
        size of the request, and the next growth takes twice as many answers. After several complete answers in a row
        to requests of the maximum size, it is doubled, and the next growth takes half as many. The passages without a
        text are queued again, unless the request had only one passage.
        """
        unanswered_passages = {digest: key for digest, key in request.items() if digest not in answered_digests}
        if 2 * len(unanswered_passages) > len(request) > 1:
            self._max_passages = len(request) // 2
            self._answers_to_grow *= 2
        if unanswered_passages:
            self._num_complete_answers = 0
            if len(request) > 1:
                self._requests.appendleft(unanswered_passages)
        elif len(request) == self._max_passages:
            self._num_complete_answers += 1
            if self._num_complete_answers == self._answers_to_grow:
                self._num_complete_answers = 0
                self._max_passages *= 2
                self._answers_to_grow = max(_ANSWERS_TO_GROW, self._answers_to_grow // 2)
