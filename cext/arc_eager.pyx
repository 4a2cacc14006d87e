# distutils: language = c++
# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Greedy arc-eager parsing (Nivre 2008, section 4), with the same moves and the same arithmetic as spaCy.

In: the outputs of a network's first layer for each token in each of the 13 positions of a state, float32, and the
weights of the upper layer. Out: the head of each token and the move that assigned its label. The parse of a document
depends only on its rows. Besides the four moves, BREAK begins a sentence after the next word. A word without a head
that is about to leave the stack returns to the buffer, once (Honnibal and Johnson 2015, "An Improved Non-monotonic
Transition System for Dependency Parsing").
"""

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

cdef extern from *:
    """
    #include <cstdint>

    namespace {

    /* The positions of a state whose tokens the network reads; the scores whose sums are in registers together. */
    constexpr int64_t NUM_POSITIONS = 13, BLOCK_SCORES = 32;

    struct Network {
        const float *rows, *padding, *bias, *upper, *upper_bias;
        int64_t hidden, pieces, width;  /* units, pieces of a unit, columns of upper (a multiple of BLOCK_SCORES) */
    };

    /* Writes the score of each move in a state to scores. tokens: the tokens in the 13 positions of the state (-1:
       none); sums: working memory. The outputs of the first layer are added up, the largest piece of each unit is
       kept (maxout), and the upper layer is applied. On x86-64, no product is fused with an addition, as in the library
       that spaCy uses. */
    __attribute__((always_inline)) inline void score_with(
        const Network &net, const int32_t *tokens, float *sums, float *scores
    ) {
        const int64_t row = net.hidden * net.pieces;
        for (int64_t i = 0; i < row; i++)
            sums[i] = 0;
        for (int64_t position = 0; position < NUM_POSITIONS; position++) {
            const int64_t start = tokens[position] * NUM_POSITIONS * row;
            const float *source = tokens[position] < 0 ? net.padding : net.rows + start;
            for (int64_t i = 0; i < row; i++)
                sums[i] += source[position * row + i];
        }
        for (int64_t i = 0; i < row; i++)
            sums[i] += net.bias[i];
        for (int64_t unit = 0; unit < net.hidden; unit++) {
            float best = sums[unit * net.pieces];
            for (int64_t piece = 1; piece < net.pieces; piece++)
                if (sums[unit * net.pieces + piece] > best)
                    best = sums[unit * net.pieces + piece];
            sums[unit] = best;
        }
        for (int64_t column = 0; column < net.width; column += BLOCK_SCORES) {
            float block_sums[BLOCK_SCORES] = {};
            for (int64_t unit = 0; unit < net.hidden; unit++) {
                const float *weights = net.upper + unit * net.width + column;
                for (int64_t i = 0; i < BLOCK_SCORES; i++)
                    block_sums[i] += sums[unit] * weights[i];
            }
            for (int64_t i = 0; i < BLOCK_SCORES; i++)
                scores[column + i] = block_sums[i] + net.upper_bias[column + i];
        }
    }

    #if defined(__x86_64__)
    __attribute__((target("avx2"))) void score_wide(
        const Network &net, const int32_t *tokens, float *sums, float *scores
    ) {
        score_with(net, tokens, sums, scores);
    }
    #endif

    /* score_with, with the instructions of this processor. */
    void score(const Network &net, const int32_t *tokens, float *sums, float *scores) {
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2"))
            return score_wide(net, tokens, sums, scores);
    #endif
        score_with(net, tokens, sums, scores);
    }

    }
    """
    const Py_ssize_t NUM_POSITIONS, BLOCK_SCORES
    cdef struct Network:
        const float *rows
        const float *padding
        const float *bias
        const float *upper
        const float *upper_bias
        Py_ssize_t hidden
        Py_ssize_t pieces
        Py_ssize_t width
    void score(const Network &net, const int32_t *tokens, float *sums, float *scores) noexcept nogil

cdef enum:
    SHIFT
    REDUCE
    LEFT
    RIGHT
    BREAK
    MOVES

#: The first letters of the kinds of moves, in the order of their indexes in the ``kinds`` argument of :func:`parse`.
MOVE_LETTERS = "SDLRB"


cdef struct State:
    int32_t length
    int32_t following  # the first token that was never on the stack
    vector[int32_t] stack
    vector[int32_t] returned  # tokens that returned to the buffer, the next one last
    vector[uint8_t] returned_once
    vector[uint8_t] begins  # 1 if a sentence begins at the token
    vector[int32_t] last_left  # the latest child of a token on each side
    vector[int32_t] last_right
    vector[int32_t] previous_sibling  # by child: the previous child of its head on the same side


cdef inline int32_t get_stack_token(const State &state, size_t depth) noexcept nogil:
    """Return the token at a depth in the stack, 0 for its top; -1 if the stack is shorter."""
    return state.stack[state.stack.size() - 1 - depth] if depth < state.stack.size() else -1


cdef inline int32_t get_buffer_token(const State &state, size_t offset) noexcept nogil:
    """Return the token at an offset in the buffer, 0 for its first one; -1 if the buffer is shorter.

    First come the tokens that returned from the stack, the last returned token at 0, then the tokens that were never on
    the stack.
    """
    if offset < state.returned.size():
        return state.returned[state.returned.size() - 1 - offset]
    cdef int32_t token = state.following + <int32_t>(offset - state.returned.size())
    return token if token < state.length else -1


cdef inline int32_t get_child(
    const vector[int32_t] &last_child, const vector[int32_t] &previous_sibling, int32_t head, bint before_last
) noexcept nogil:
    """Return the last child added to ``head`` on one side, or the last but one if ``before_last``; -1 if there is none.

    ``last_child`` is :attr:`State.last_left` or :attr:`State.last_right`. A missing head (-1) has no children.
    """
    if head < 0 or last_child[head] < 0:
        return -1
    return previous_sibling[last_child[head]] if before_last else last_child[head]


cdef void collect_tokens(const State &state, int32_t *tokens) noexcept nogil:
    """Write to ``tokens`` the tokens in the 13 positions of a state that the network reads.

    They are in the order of the weights. A missing token is -1.
    """
    cdef int32_t top = get_stack_token(state, 0), below = get_stack_token(state, 1), first = get_buffer_token(state, 0)
    tokens[0] = first
    tokens[1] = get_buffer_token(state, 1)
    tokens[2] = top
    tokens[3] = below
    tokens[4] = get_stack_token(state, 2)
    tokens[5] = get_child(state.last_left, state.previous_sibling, top, 0)
    tokens[6] = get_child(state.last_right, state.previous_sibling, top, 0)
    tokens[7] = get_child(state.last_left, state.previous_sibling, first, 0)
    tokens[8] = get_child(state.last_right, state.previous_sibling, top, 1)
    tokens[9] = get_child(state.last_left, state.previous_sibling, below, 0)
    tokens[10] = get_child(state.last_left, state.previous_sibling, below, 1)
    tokens[11] = get_child(state.last_right, state.previous_sibling, below, 0)
    tokens[12] = get_child(state.last_right, state.previous_sibling, below, 1)


cdef void find_possible_moves(const State &state, bint *possible) noexcept nogil:
    """Set ``possible[kind]`` for each kind of move to 1 if a move of this kind is possible in this state, else to 0."""
    cdef size_t num_left = state.length - state.following + state.returned.size()
    cdef int32_t first = get_buffer_token(state, 0), second = get_buffer_token(state, 1)
    cdef bint is_inside_sentence = num_left > 0 and not state.begins[first]
    # While the stack has tokens, a token that returned from it is not shifted again before it gets a child.
    possible[SHIFT] = state.stack.empty() or (num_left >= 2 and is_inside_sentence and not state.returned_once[first])
    possible[REDUCE] = not state.stack.empty()
    possible[LEFT] = possible[RIGHT] = not state.stack.empty() and is_inside_sentence
    possible[BREAK] = num_left >= 2 and second == first + 1 and not state.begins[second]


cdef void shift_token(State &state) noexcept nogil:
    """Move the first token of the buffer to the stack."""
    if state.returned.empty():
        state.stack.push_back(state.following)
        state.following += 1
    else:
        state.stack.push_back(state.returned.back())
        state.returned.pop_back()


cdef void apply_move(State &state, int kind, int32_t move, int32_t *heads, int32_t *labels) noexcept nogil:
    """Apply a valid move to a state, and record the arc that it adds or replaces in ``heads`` and ``labels``.

    ``kind`` is the kind of the move, and ``move`` its index among all moves, which is the label of the arc's child.
    """
    cdef int32_t top = get_stack_token(state, 0), first = get_buffer_token(state, 0)
    if kind == SHIFT:
        shift_token(state)
    elif kind == REDUCE:
        state.stack.pop_back()
        if heads[top] < 0 and not state.stack.empty():
            state.returned.push_back(top)  # to get a head later
            state.returned_once[top] = True
    elif kind == LEFT:
        if heads[top] >= 0:
            # top is the last right child of its old head, which gets no further one while top is on the stack.
            state.last_right[heads[top]] = state.previous_sibling[top]
        heads[top], labels[top] = first, move
        state.previous_sibling[top], state.last_left[first] = state.last_left[first], top
        state.returned_once[first] = False
        state.stack.pop_back()
    elif kind == RIGHT:
        heads[first], labels[first] = top, move
        state.previous_sibling[first], state.last_right[top] = state.last_right[top], first
        shift_token(state)
    else:  # BREAK
        state.begins[get_buffer_token(state, 1)] = True


cdef void parse_document(
    Network &net, int32_t length, const uint8_t *kinds, Py_ssize_t num_moves, float *sums, float *scores,
    int32_t *heads, int32_t *labels,
) noexcept nogil:
    """Parse one document: make the possible move with the highest score until the buffer and the stack are empty.

    ``length`` is its number of tokens, ``kinds[move]`` is the kind of each of the ``num_moves`` moves, and ``sums`` and
    ``scores`` are working memory. ``heads`` and ``labels`` must be -1 for each token. If a token has a head, they are
    set to the head and to the move that assigned it.
    """
    cdef State state
    cdef int32_t[13] tokens
    cdef bint[5] possible
    cdef Py_ssize_t move, best
    state.length = length
    state.following = 0
    state.returned_once.assign(length, 0)
    state.begins.assign(length, 0)
    state.last_left.assign(length, -1)
    state.last_right.assign(length, -1)
    state.previous_sibling.assign(length, -1)
    while state.following < length or not state.returned.empty() or not state.stack.empty():
        collect_tokens(state, tokens)
        score(net, tokens, sums, scores)
        find_possible_moves(state, possible)
        best = -1
        for move in range(num_moves):
            if possible[kinds[move]] and (best < 0 or scores[move] > scores[best]):
                best = move
        apply_move(state, kinds[best], <int32_t>best, heads, labels)


def parse(const float[:, ::1] rows not None, const float[::1] bias not None, const float[:, ::1] upper not None,
          const float[::1] upper_bias not None, const uint8_t[::1] kinds not None, const int32_t[::1] lengths not None,
          int32_t[::1] heads not None, int32_t[::1] labels not None) -> None:
    """Parse consecutive documents, and write the head of each token to ``heads`` and its label to ``labels``.

    A head is an index within the document, and a label is the index of the move that assigned the head. Both are -1 for
    a token without a head. ``lengths`` has the number of tokens of each document.

    ``rows`` has the shape (1 + tokens, 13 positions * units * pieces). The first row is for "no token", and each other
    row is for a token. A row has the outputs of the network's first layer for the token in each position, one position
    after the other. In a state, the outputs for the tokens in its positions and ``bias``, shape (units * pieces), are
    added up. The output of a hidden unit is the largest of its adjacent pieces (maxout). ``upper``, shape (hidden
    units, moves padded with zeros to a multiple of 32), and ``upper_bias`` are the weights of the moves. ``kinds`` has
    for each move the index of its kind in :data:`MOVE_LETTERS`; SHIFT and REDUCE must occur.

    Raises ValueError if the shapes do not match.
    """
    cdef Network net
    cdef Py_ssize_t document, index, first_token = 0, num_tokens = rows.shape[0] - 1, row_size = bias.shape[0]
    cdef Py_ssize_t total_length = 0
    cdef bint[5] is_kind_present
    for index in range(MOVES):
        is_kind_present[index] = False
    for index in range(kinds.shape[0]):
        if kinds[index] >= MOVES:
            raise ValueError(f"{kinds[index]} is not a kind of move")
        is_kind_present[kinds[index]] = True
    for document in range(lengths.shape[0]):
        if lengths[document] < 0:
            raise ValueError("a document has a negative length")
        total_length += lengths[document]
    if not (
        is_kind_present[SHIFT] and is_kind_present[REDUCE] and upper.shape[0] and row_size
        and row_size % upper.shape[0] == 0 and rows.shape[1] == NUM_POSITIONS * row_size
        and upper.shape[1] % BLOCK_SCORES == 0 and upper.shape[1] >= kinds.shape[0]
        and upper_bias.shape[0] == upper.shape[1] and total_length == num_tokens == heads.shape[0] == labels.shape[0]
    ):
        raise ValueError("the weights, rows, moves and documents of a parse do not match in shape")
    cdef vector[float] sums = vector[float](row_size), scores = vector[float](upper.shape[1])
    # The kernel uses its own copies of the sizes, because the input arrays may share memory with the output arrays.
    cdef vector[int32_t] sizes, parsed_heads, parsed_moves
    cdef vector[uint8_t] move_kinds
    if not num_tokens:
        return
    sizes.assign(&lengths[0], &lengths[0] + lengths.shape[0])
    move_kinds.assign(&kinds[0], &kinds[0] + kinds.shape[0])
    parsed_heads.assign(num_tokens, -1)
    parsed_moves.assign(num_tokens, -1)
    net.padding, net.bias, net.upper, net.upper_bias = &rows[0, 0], &bias[0], &upper[0, 0], &upper_bias[0]
    net.hidden, net.pieces, net.width = upper.shape[0], row_size // upper.shape[0], upper.shape[1]
    with nogil:
        for document in range(<Py_ssize_t> sizes.size()):
            if sizes[document]:
                net.rows = &rows[1 + first_token, 0]
                parse_document(net, sizes[document], move_kinds.data(), <Py_ssize_t> move_kinds.size(), sums.data(),
                               scores.data(), &parsed_heads[first_token], &parsed_moves[first_token])
                first_token += sizes[document]
        memcpy(&heads[0], parsed_heads.data(), num_tokens * sizeof(int32_t))
        memcpy(&labels[0], parsed_moves.data(), num_tokens * sizeof(int32_t))
