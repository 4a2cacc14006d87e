# cython: wraparound=False
"""Runs of capitalized words in the sentences of a document, and the names that they form.

In: the pieces of sentences (:func:`kvstore_cext.words.list_name_pieces`), and the words used by the rules. Out: runs,
and the forms of names in order. kvstore.text.names describes the rules and their purpose; this module applies them to
every capitalized word of a corpus.
"""

from cpython.unicode cimport PyUnicode_Tailmatch

cdef enum:
    MAX_NUMBER_DIGITS = 4  # digits of the longest number inside a name
    MIN_ALONE_OCCURRENCES = 2  # a common word in capitals is a name if it occurs alone more often than this


cdef class RunRules:
    """The words and word endings that decide whether a run, adjacent capitalized words of a sentence, is a name."""

    # Particles join words of a name (``of``, and the pair ``of the``). An organization word is one such as ``Council``.
    # A numbered word precedes a number (``Table 5``). Titles and units are next to names, but are not names (``Mr``). A
    # broken hyphen is one at the end of a line. An opening mark begins a sentence.
    cdef frozenset function_words, particles, particle_pairs, organization_words, numbered_words, titles_and_units
    cdef frozenset calendar, calendar_abbreviations, demonyms, numerals, parts_of_text, broken_hyphens, opening_marks
    cdef frozenset saints, dotted_words
    # Endings of demonyms (``ish``), of adjectives, and of the names of fields of knowledge.
    cdef tuple demonym_endings, adjective_endings, field_endings
    cdef Py_ssize_t max_words
    cdef object get_kind, match_digest, match_contraction

    def __init__(self, words, endings, Py_ssize_t max_words, get_kind, match_digest, match_contraction):
        """Store the rules: ``words`` (frozensets) and ``endings`` (tuples) by purpose.

        A name has at most ``max_words`` words. ``get_kind`` returns the kind of a common word (``noun``), or None for
        another word. ``match_digest`` and ``match_contraction`` match the form of a word, and return None if it does
        not match.
        """
        if None in words.values() or None in endings.values():
            raise TypeError("words are a frozenset and endings a tuple, not None")
        self.function_words, self.particles = words["function"], words["particles"]
        self.particle_pairs, self.organization_words = words["particle_pairs"], words["organization_words"]
        self.numbered_words = words["numbered_words"]
        self.calendar, self.calendar_abbreviations = words["calendar"], words["calendar_abbreviations"]
        self.titles_and_units, self.demonyms = words["titles_and_units"], words["demonyms"]
        self.numerals, self.parts_of_text = words["numerals"], words["parts_of_text"]
        self.broken_hyphens, self.opening_marks = words["broken_hyphens"], words["opening_marks"]
        self.saints = words["saints"]
        self.dotted_words = words["dotted_words"]
        self.demonym_endings, self.adjective_endings = endings["demonyms"], endings["adjectives"]
        self.field_endings, self.max_words = endings["fields"], max_words
        self.get_kind, self.match_digest, self.match_contraction = get_kind, match_digest, match_contraction

    def is_demonym(self, str word not None) -> bool:
        """True if a word is a demonym, such as ``Korean``."""
        return self._is_demonym(word)

    def starts_with_page_heading(self, list run not None) -> bool:
        """True if a run of two or more words begins with a page heading: ``SUPPORT Limited``, ``NOTES The``."""
        if not all(isinstance(word, str) for word in run[:2]):
            raise TypeError("a run must be a list of words")
        return self._has_page_heading(run)

    # -- Words

    cdef bint _is_common(self, str word) except -1:
        """True if a word is a common word of the language, capitalized or not."""
        return self.get_kind(word) is not None

    cdef bint _has_only_common_words(self, list run) except -1:
        """True if all words of a run (of capitalized words) are common words of the language."""
        cdef str word
        for word in run:
            if not self._is_common(word):
                return False
        return True

    cdef bint _has_common_word(self, list run) except -1:
        """True if a word of a run (of capitalized words) is a common word of the language."""
        cdef str word
        for word in run:
            if self._is_common(word):
                return True
        return False

    cdef bint _is_demonym(self, str word) except -1:
        """True if a word is a demonym (the adjective of a people): ``British``, ``Korean``."""
        cdef str lower = word.lower()
        if lower in self.demonyms:
            return True
        if len(lower) > 5 and word[0].isupper() and lower.endswith(self.demonym_endings):
            return True
        return _has_ending(lower, "an") and self.get_kind(word) == "adjective"

    cdef bint _is_date_word(self, str word, bint allows_abbreviation) except -1:
        """True if a word is a month or a day of the week; ``allows_abbreviation`` also accepts ``Mar`` and ``Mar.``."""
        cdef str lower = word.lower()
        return lower in self.calendar or (allows_abbreviation and lower.rstrip(".") in self.calendar_abbreviations)

    cdef bint _keeps_dot(self, str word) except -1:
        """True if the final dot of a word belongs to it: an initial (``J.``) or an abbreviation (``U.S.``, ``St.``)."""
        return len(word) == 2 or word.find(".", 0, len(word) - 1) >= 0 or word in self.dotted_words

    cdef bint _is_contracted(self, str word) except -1:
        """True if a word is a contraction such as ``It's``."""
        return ("'" in word or "’" in word) and self.match_contraction(word) is not None

    # -- Runs

    cdef list _find_runs(self, list pieces):
        """Return the runs of capitalized words of a sentence, and its pieces of code and emphasis, in order.

        A run is a pair: its words, and True if it opens the sentence. Code and emphasis are strings. ``pending`` are
        words in lower case that belong to the run if a capitalized word follows.
        """
        cdef list runs = [], run = [], pending = []
        cdef bint at_sentence_start = True, at_start = True  # True if the next piece, or the run, opens the sentence
        cdef bint ended  # True if the piece ends the run
        cdef bint after_slash = False  # a slash directly precedes the run
        cdef Py_ssize_t index
        cdef str piece, word, previous
        cdef Py_UCS4 c
        for index in range(len(pieces)):
            piece = pieces[index]
            if not piece:
                raise ValueError("a piece of a sentence must not be empty")
            c = piece[0]
            if not run and c.islower():  # most pieces
                at_sentence_start = "_" in piece
                continue
            if c.isalnum():
                ended = _has_ending(piece, ".") and not self._keeps_dot(piece)
                word = piece[:len(piece) - 1] if ended else piece
                if "_" in word or self._is_contracted(word):
                    ended = True  # an identifier or another piece that is not a name
                elif word[0].isupper() or (run and not pending and len(word) <= MAX_NUMBER_DIGITS and word.isdigit()):
                    if len(pending) == 1 and pending[0] == "and" and not self._continues_after_and(run, pieces, index):
                        runs.append((run, at_start))
                        run, pending = [], []
                    elif (run and not pending and _get_last_word(run).isdigit() and word.isupper()
                          and (<str> run[0]).isupper()):
                        runs.append((run[:len(run) - 1], at_start))  # columns of a table
                        run = []
                    if after_slash and len(run) == 1 and not pending:
                        run = []  # "Tool/API Name": the slash joins it to the previous word
                    if not run:
                        at_start = at_sentence_start
                    if index:
                        previous = <str> pieces[index - 1]
                        after_slash = previous == "/" or previous in self.broken_hyphens
                    else:
                        after_slash = False
                    run += pending
                    run.append(word)
                    pending = []
                elif run and not ended and (
                    self._can_connect(run, pending, word) or self._can_join_with_and(run, pending, word)
                ):
                    pending.append(word)
                else:
                    ended = True
                at_sentence_start = "_" in word or (at_sentence_start and c.isdigit())
                if not ended:
                    continue
            elif c == u"&" and len(piece) == 1 and run and not pending:
                pending.append(piece)
                continue
            elif run and not pending and (piece in self.broken_hyphens or (piece == "/" and len(run) > 1)):
                # "Debian GNU/Linux", "Diffie- Hellman": the mark joins it to the next word.
                run = _remove_last_word(run)
            if run:
                runs.append((run, at_start))
                run, pending = [], []
            if c == u" " or piece in self.opening_marks:
                at_sentence_start = True
            elif len(piece) > 1 and (c == u"`" or c == u"*"):
                at_sentence_start = False
                runs.append(piece)
        if run:
            runs.append((run, at_start))
        return runs

    cdef bint _can_join_with_and(self, list run, list pending, str word) except -1:
        """True if ``word`` is an ``and`` that may continue a run, because it follows a common word of the run.

        Examples are ``Bureau of Weights and Measures`` and ``Food and Drug Administration``.
        """
        return word == "and" and not pending and self._is_common(_get_last_word(run))

    cdef bint _can_connect(self, list run, list pending, str word) except -1:
        """True if a word in lower case can connect a run and its ``pending`` words with a capitalized word."""
        cdef str lower = word.lower()
        if (
            lower == "for" and not pending and not self._is_common(_get_last_word(run))
            and _get_last_word(run).lower() not in self.organization_words
        ):
            return False  # "Slovenia for Ljubljana"
        if lower not in self.particles or lower == "the":  # only as the second word of a pair, such as ``of the``
            return len(pending) == 1 and ((<str> pending[0]).lower(), lower) in self.particle_pairs
        return not pending or (len(pending) == 1 and ((<str> pending[0]).lower(), lower) in self.particle_pairs)

    cdef bint _continues_after_and(self, list run, list pieces, Py_ssize_t position) except -1:
        """True if a run of capitalized words continues after an ``and`` with the piece at ``position``, as one name.

        A piece of a sentence is a word or a mark.
        """
        cdef Py_ssize_t end = position
        cdef list words_after = []
        cdef str piece
        while end < len(pieces):
            piece = pieces[end]  # not yet checked by the caller, so no cast
            if not piece or not piece[0].isupper():
                break
            words_after.append(piece.rstrip("."))
            end += 1
            if _has_ending(piece, "."):
                break
        # "Ministry of Trade and Industry": "of" is among the three words before the last.
        if "of" in run[max(0, len(run) - 4):len(run) - 1] and self._is_common(words_after[0]):
            if self._has_only_common_words(run[_find_last(run, "of") + 1:]):
                return True
        if len(words_after) == 1:
            # "Love and Honor": neither word is a name alone.
            if position > 2 and pieces[position - 3] == ",":  # the end of a list: ", Love and Honor"
                return False
            return len(run) == 1 and self._is_common(words_after[0])
        if _get_last_word(run).lower() in self.organization_words:
            return False
        return _get_last_word(words_after).lower() in self.organization_words

    # -- Parts of runs

    cdef bint _has_page_heading(self, list run) except -1:
        """True if the first of at least two words is the page heading of a manual: ``NOTES The``."""
        cdef str first = <str> run[0], second = <str> run[1]
        if not first.isupper() or (second.isupper() and second != "A"):
            return False
        return first.lower() in self.parts_of_text or (len(first) > 3 and self._is_common(first))

    cdef list _cut_before_sentence(self, list run, bint at_start):
        """Return the part of a run of capitalized words before the beginning of a sentence in it, else the whole run.

        In lists of definitions, a sentence follows an identifier: ``EFAULT The``, ``VmLib Shared``.
        """
        cdef Py_ssize_t position
        cdef str previous, word
        cdef bint follows_code
        for position in range(1, len(run)):
            previous, word = <str> run[position - 1], <str> run[position]
            if not word[0].isupper() or word.isupper():
                continue
            follows_code = at_start and len(run) == 2 and _looks_like_code(previous)
            follows_code = follows_code and not ("-" in previous or "'" in previous or "’" in previous)
            if (previous.isupper() and word.lower() in self.function_words) or (
                follows_code and self._is_common(word)
            ):
                return run[:position]
            if position > 1 and _is_in_capitals(previous) and _is_in_capitals(<str> run[position - 2]):
                return run[:position]  # a line in capitals before a text
        return run

    cdef list _remove_date(self, list run):
        """Return a run without a date at its end (``May 28``, ``July 2000``); an empty run if it is only a date."""
        cdef Py_ssize_t end = len(run), position
        cdef bint allows_abbreviation = False, has_date_word = False
        if not end or not (_get_last_word(run).isdigit() or self._is_date_word(_get_last_word(run), True)):
            return run  # most runs
        for position in range(end):  # next to a number, ``Mar.`` is a month
            allows_abbreviation = allows_abbreviation or (<str> run[position]).isdigit()
        while end and ((<str> run[end - 1]).isdigit() or self._is_date_word(<str> run[end - 1], allows_abbreviation)):
            end -= 1
        for position in range(end, len(run)):
            has_date_word = has_date_word or self._is_date_word(<str> run[position], allows_abbreviation)
        # A date after a particle is a part of the name.
        return run[:end] if has_date_word and (end == 0 or run[end - 1] not in self.particles) else run

    cdef list _remove_reference(self, list run):
        """Return a run without a reference to a part of a text at its end: ``Table 53``, ``Figure A``."""
        cdef Py_ssize_t end = len(run) - 2
        if end >= 0 and (<str> run[end]).lower().rstrip("s") in self.numbered_words:
            if _get_last_word(run).isdigit() or len(_get_last_word(run)) == 1:
                while end and ((<str> run[end - 1])[0].islower() or run[end - 1] == "&"):
                    end -= 1  # the word that joins it to the rest: the Museum of Section 34
                return run[:end]
        return run

    cdef bint _is_adjectival(self, list run) except -1:
        """True if a run of several words ends in a demonym or in an ending of adjectives, or has only adjectives."""
        cdef str word
        if len(run) < 2:
            return False
        if self._is_demonym(_get_last_word(run)) or _get_last_word(run).endswith(self.adjective_endings):
            return True
        for word in run:
            if self.get_kind(word) != "adjective":
                return False
        return True

    cdef bint _can_be_person(self, list run) except -1:
        """True if a run of capitalized words can be the name of a person: several words, none of them a common one."""
        return len(run) > 1 and "&" not in run and not self._has_common_word(run)

    cdef bint _splits_at_of_the(self, list run) except -1:
        """True if ``of the`` introduces the group of a person, as in ``John Lennon of the Beatles``: two names."""
        cdef Py_ssize_t position
        if "of" not in run:
            return False
        position = _find_last(run, "of")
        if run[position + 1] != "the":
            return False
        # A group in capitals also follows names with common words.
        return self._can_be_person(run[:position]) or (
            position > 1 and len(run) == position + 3 and _get_last_word(run).isupper()
        )


cdef class CapitalRuns:
    """The runs of capitalized words of one document, and the names that they form.

    The whole document distinguishes common words from names: ``common`` are words that it has in lower case,
    ``capitalized`` are words that it capitalizes in the middle of a sentence.
    """

    cdef RunRules rules
    cdef set common, capitalized
    cdef list runs
    cdef dict standalone_counts, names_of_runs

    def __init__(
        self, RunRules rules not None, list pieces not None, set common not None, set capitalized not None
    ):
        """Find the runs of capitalized words of each sentence; ``pieces`` has a list of pieces for each sentence.

        ``common`` are the words that the document has in lower case, ``capitalized`` the words that it capitalizes in
        the middle of a sentence.
        """
        cdef list run
        self.rules, self.common, self.capitalized = rules, common, capitalized
        self.runs = []
        for sentence_pieces in pieces:
            if not isinstance(sentence_pieces, list):
                raise TypeError("the pieces of a sentence must be a list")
            self.runs.append(rules._find_runs(<list> sentence_pieces))
        # The number of times that each run occurs alone in the document. Single words at the start of a sentence do not
        # count.
        self.standalone_counts, self.names_of_runs = {}, {}
        for sentence_runs in self.runs:
            for item in <list> sentence_runs:
                if type(item) is tuple:
                    run = <list> (<tuple> item)[0]
                    if len(run) > 1 or not (<tuple> item)[1]:
                        key = tuple(run)
                        self.standalone_counts[key] = self.standalone_counts.get(key, 0) + 1

    def list_names(self, Py_ssize_t sentence) -> list:
        """Return for each run of the sentence with this index a list of the names that it forms, in order.

        Pieces of code and emphasis are returned unchanged, as strings among the lists.
        """
        cdef list results = [], names, run
        cdef bint at_start
        for item in <list> self.runs[sentence]:
            if type(item) is tuple:
                run, at_start = <list> (<tuple> item)[0], (<tuple> item)[1]
                key = (at_start, *run)
                names = <list> self.names_of_runs.get(key)
                if names is None:  # documents repeat names
                    names = []
                    self._add_names(run, at_start, names)
                    self.names_of_runs[key] = names
                results.append(names)
            else:
                results.append(item)
        return results

    cdef int _add_names(self, list run, bint at_start, list names) except -1:
        """Append the names that a run of capitalized words forms to ``names``: the run, and parts of it.

        Words that belong to no name, such as a date at its end, are removed first. ``at_start``: the run opens its
        sentence, so its first word may owe its capital to that position.
        """
        cdef RunRules rules = self.rules
        cdef Py_ssize_t full_length = len(run), index
        cdef bint opens  # True if the first word may owe its capital to its position
        cdef bint is_separate_name
        cdef str word, bare
        cdef list after
        if full_length == 1:  # most runs
            word = _strip_possessive(<str> run[0])
            opens = at_start and self._is_capitalized_by_position(run)
            if not (opens or word.isdigit()) and self._is_single_word_name(word, at_start):
                names.append(word)
            return 0
        while run and at_start and self._is_capitalized_by_position(run):
            run, at_start = run[1:], False
            while run and ((<str> run[0]).lower() in rules.particles or (<str> run[0]).isdigit()):
                run = run[1:]  # "In 1901 Ada"
        if len(run) == 2 and len(<str> run[0]) == 2 and (<str> run[0])[1] == u"." and rules._is_common(<str> run[1]):
            return 0  # the letter of a list item, or of the end of a sentence: "It is module A. Notice it"
        if at_start and len(run) > 1 and rules._has_page_heading(run):
            run = run[1:]
            while run and (<str> run[0]).lower() in rules.function_words:
                run = run[1:]
        run = rules._cut_before_sentence(run, at_start)
        if (
            1 < len(run) < full_length and rules._has_only_common_words(run)
            and tuple(run) not in self.standalone_counts
        ):
            return 0  # "Known Causes of Trouble": the removed part belonged to it
        run = rules._remove_reference(rules._remove_date(run))
        for item in run:
            word = <str> item
            if not (word.lower() in rules.function_words or word.isdigit()):
                break
        else:
            return 0  # SHALL NOT; In 1276
        if rules._is_adjectival(run):
            return 0  # South Korean
        opens = at_start or len(run) < full_length
        if len(run) == 1 and not self._is_single_word_name(_strip_possessive(<str> run[0]), opens):
            return 0
        for index in range(len(run)):
            word = <str> run[index]
            if _is_possessive(word):
                bare = word[:len(word) - 2]
                after = run[index + 1:]
                if not after or (<str> after[0])[0].isdigit():
                    opens = at_start and (len(run) == 1 or rules._is_common(bare))
                    if index or self._is_single_word_name(bare, opens):
                        names.append(" ".join([*run[:index], bare]))
                    return 0
                if index == 1 and run[0] in rules.saints:
                    continue  # "St Stephen's Green School" is not a school of St Stephen
                # "Nolan's Batman" also names Nolan and Batman; "King's College London" is one name.
                if (<str> run[0]).lower() in rules.function_words:
                    continue
                if index or not rules._is_common(bare):
                    names.append(" ".join([*run[:index], bare]))
                is_separate_name = not (rules._has_only_common_words(after) if index else rules._has_common_word(after))
                if self._occurs_standalone(after) or (
                    is_separate_name and (<str> after[0]).lower() not in rules.organization_words
                ):
                    self._add_part(after, names)
        if run:
            if len(run) <= rules.max_words and not rules._splits_at_of_the(run):
                names.append(" ".join(run))
            self._add_parts(run, names)
        return 0

    cdef int _add_parts(self, list run, list names) except -1:
        """Append the names that ``of`` and ``for`` join in a run (``the Analytical Engine of Charles Babbage``)."""
        cdef list segments, segment, parts, part
        cdef Py_ssize_t index
        if "of" not in run and "for" not in run:  # most runs
            return 0
        segments = _split_at_word(run, "for")
        for segment in segments:
            if len(segments) > 1 and ("of" in segment or self._occurs_standalone(segment)):
                # "Best Actress for House of Cards" names House of Cards; "Institute for Advanced Study" does not.
                names.append(" ".join(segment))
            parts = _split_at_word(segment, "of")
            if len(parts) < 2:
                continue
            for index in range(len(parts)):
                part = <list> parts[index]
                if index or self._occurs_standalone(part):
                    self._add_part(part, names)
                elif len(part) > 1 and self.rules._splits_at_of_the(segment):
                    names.append(" ".join(part))
                elif len(part) > 1 and part[0] != "The" and self.rules._can_be_person(<list> parts[1]):
                    # The Analytical Engine of Charles Babbage, but not the Second Battle of Bull Run, nor the British
                    # Society of Aesthetics.
                    names.append(" ".join(part))
        return 0

    cdef bint _occurs_standalone(self, list part) except -1:
        """True if a part of a run (of capitalized words) also occurs as a run of its own, and is not a common word."""
        return tuple(part) in self.standalone_counts and (len(part) > 1 or not self.rules._is_common(<str> part[0]))

    cdef int _add_part(self, list part, list names) except -1:
        """Append a part of a run to ``names`` if it is a name itself."""
        cdef bint is_field_or_people
        if not part or (<str> part[0]).isdigit() or "and" in part or _is_possessive(_get_last_word(part)):
            return 0
        is_field_or_people = len(part) > 1 and (
            _get_last_word(part).lower().endswith(self.rules.field_endings) or self.rules._is_demonym(<str> part[0])
        )
        if is_field_or_people and self.rules._has_only_common_words(part) and not self._occurs_standalone(part):
            return 0  # "Register of Historic Places", "Museum of American Art"
        if len(part) > 1 or (
            not self.rules._is_common(<str> part[0]) and self._is_single_word_name(<str> part[0], False)
        ):
            names.append(" ".join(part))
        return 0

    cdef bint _is_capitalized_by_position(self, list run) except -1:
        """True if the first word of a run, which opens a sentence, is capitalized only because of this position."""
        cdef str word = <str> run[0], lower = word.lower()
        if lower in self.rules.function_words:
            return True
        if len(run) == 1 or word in self.capitalized or word.isupper():
            return False
        if lower in self.common:
            return True
        kind = self.rules.get_kind(word)
        return kind == "verb" or kind == "other" or _has_ending(word, "ing")

    cdef bint _is_single_word_name(self, str word, bint at_start) except -1:
        """True if a single capitalized word is a name. ``at_start``: it opens the sentence."""
        cdef RunRules rules = self.rules
        cdef str lower = word.lower(), bare = lower.rstrip(".")
        if lower in rules.function_words or lower in rules.calendar or lower in rules.parts_of_text or len(bare) < 2:
            return False
        if bare in rules.titles_and_units or lower.endswith(rules.adjective_endings):
            return False
        if rules.match_digest(word) is not None:
            return False
        if lower in rules.numerals or rules._is_demonym(word):
            return False
        if word.isupper():
            return not rules._is_common(word) or self.standalone_counts.get((word,), 0) > MIN_ALONE_OCCURRENCES
        if at_start and word not in self.capitalized:
            return False
        # A common word is a name if it is a noun that the document repeatedly capitalizes and never has in lower case.
        kind = rules.get_kind(word)
        if kind is None:
            return True
        if kind != "noun" or at_start or lower in self.common:
            return False
        return self.standalone_counts.get((word,), 0) > 1


cdef inline str _get_last_word(list run):
    """Return the last word of a run."""
    return <str> run[len(run) - 1]


cdef inline bint _has_ending(str word, str end) except -1:
    """True if a word ends in ``end``."""
    return PyUnicode_Tailmatch(word, end, 0, len(word), 1)  # 1: at the end of the word


cdef inline bint _is_possessive(str word) except -1:
    """True if a word ends in ``'s``, with either apostrophe."""
    return _has_ending(word, "'s") or _has_ending(word, "’s")


cdef inline str _strip_possessive(str word):
    """Return a word without a final ``'s``."""
    return word[:len(word) - 2] if _is_possessive(word) else word


cdef inline bint _is_in_capitals(str word) except -1:
    """True if a word is in capitals and has more than three letters, unlike an abbreviation such as ``USA``."""
    return len(word) > 3 and word.isupper()


def is_code(str word not None) -> bool:
    """True if a word is written like code: it has a mark, a digit or a capital inside."""
    return _looks_like_code(word)


cdef bint _looks_like_code(str word) except -1:
    """True if a word is written like code: it has a mark, a digit or a capital inside."""
    return not word.isalpha() or not (word.islower() or word.istitle() or word.isupper())


cdef Py_ssize_t _find_last(list run, str word) except -1:
    """Return the index of the last occurrence of a word in a run, which must contain it."""
    cdef Py_ssize_t index = len(run) - 1
    while run[index] != word:
        index -= 1
    return index


cdef list _remove_last_word(list run):
    """Return a run without its last word and the words in lower case that join it to the others."""
    cdef Py_ssize_t end = len(run) - 1
    while end and not (<str> run[end - 1])[0].isupper():
        end -= 1
    return run[:end]


cdef list _split_at_word(list run, str connecting):
    """Return the parts of a run between the occurrences of a connecting word, without a ``the`` after it."""
    cdef list parts = []
    cdef Py_ssize_t start = 0, position
    for position in range(len(run)):
        if run[position] == connecting:
            parts.append(run[start:position])  # another word follows, because a run ends in a capitalized word
            start = position + 1 + (run[position + 1] == "the")
    parts.append(run[start:])
    return parts
