"""Each sentence of README.md and docs/design.md that promises a behavior has a test, which a table names.

A new sentence in these sections fails here until a table lists it: in `PROMISES` with the tests that check it, in
`FIGURES` with the tool that measures it, or in `DESCRIPTIONS` because it promises nothing. A promise without a test
does not belong on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_running import ROOT

#: The sections to read, by page. The page title selects the text before the first section.
SECTIONS = {
    "README.md": ("kvstore", "What sets it apart", "In a browser", "Strategies", "What it does not do"),
    "docs/design.md": (
        "The design and its laws",
        "The laws",
        "What is stored",
        "Why LMDB",
        "Layers of the source",
    ),
}

ATOMIC = ("test_store.py::test_a_transaction_is_all_or_nothing", "test_crashes.py::test_a_writer_killed_at_any_time")
ONE_STATE = (
    "test_store.py::test_a_snapshot_does_not_see_later_commits",
    "test_processes.py::test_no_statement_of_four_readers_sees_two_generations",
)
SAME_DUMP = ("test_dump_law.py::test_any_history_gives_the_dump_of_a_fresh_store",)
SAME_ANSWERS = ("test_answer_law.py::test_any_history_gives_the_answers_of_a_fresh_store",)
INTRODUCED = (
    "test_store.py::test_a_name_known_later_is_found_in_earlier_documents",
    "test_dump_law.py::test_a_deleted_name_disappears_from_texts_that_do_not_introduce_it",
)
EXACT_LOOKUP = (
    "test_entity_filter.py::test_names_whose_stored_bits_are_equal_share_a_slot_and_are_all_found",
    "test_store.py::test_unknown_things_suggest_the_nearest",
)
OFFLINE = (
    "test_sample.py::test_the_sample_answers_by_words_alone",
    "test_embedders.py::test_minilm_needs_no_network_and_leaves_nothing_set",
)
EXTRACTIVE = (
    "test_answers.py::test_an_answer_prints_as_its_text",
    "test_generations.py::test_without_a_model_no_request_is_sent",
)
ONE_WRITER = (
    "test_processes.py::test_a_second_writer_gets_the_holder_or_waits",
    "test_processes.py::test_readers_in_other_processes_see_complete_generations",
)
FOREST = (
    "test_extraction.py::test_the_tree_follows_headings",
    "test_extraction.py::test_a_tree_without_headings_follows_similarity",
)
LAST_STATEMENT = (
    "test_edges.py::test_an_edge_stays_while_a_document_or_the_user_states_it",
    "test_facts.py::test_it_is_stored_known_and_deleted_with_the_text",
)
REFRESHED = (
    "test_generations.py::test_it_is_created_shown_refreshed_and_dropped",
    "test_communities.py::test_no_word_of_a_deleted_document_is_shown_and_a_new_one_is_at_home_at_once",
    "test_topics.py::test_deleted_chunks_are_not_shown_and_new_ones_get_a_topic",
)
NAMES_BY_RULE = ("test_names.py::test_a_text_in_another_language_has_no_names_but_titles_and_code",)

#: The sentences that promise a behavior, with the tests that check it.
PROMISES: dict[str, tuple[str, ...]] = {
    "kvstore keeps your documents in one directory and answers questions with citations.": (
        "test_environment.py::test_an_empty_directory_becomes_a_store",
        "test_retrieval.py::test_an_answer_cites_document_chunk_and_bytes",
        *OFFLINE,
    ),
    "It needs no server, network connection or language model.": OFFLINE,
    "After any sequence of changes, a store has the same content as a new store built from the same documents, "
    "settings and stated facts (such as aliases).": SAME_DUMP,
    "Deleting a document also deletes all data derived from it: chunks (pieces of its text), vectors, summaries "
    "and graph edges.": (*SAME_DUMP, *INTRODUCED),
    "kvstore also forgets names of people, places and things that appeared only in that document.": (
        *SAME_DUMP,
        *INTRODUCED,
    ),
    "A document and all data derived from it become visible together or not at all.": ATOMIC,
    "Every reader, in every process, sees one consistent state.": ONE_STATE,
    "Two writers cannot corrupt a store.": ONE_WRITER,
    "The second writer waits, or gets an error that names the process holding the lock.": ONE_WRITER,
    "Readers never wait for a writer.": ONE_WRITER,
    "kvstore finds entities (people, places and things) and their relations with rules and a small parser.": (
        *OFFLINE,
        *EXTRACTIVE,
    ),
    "Summaries and answers consist of sentences from the documents.": (*OFFLINE, *EXTRACTIVE),
    "A language model is optional.": OFFLINE,
    "The default embedder (the model that computes vectors) ships with the package and runs on your machine.": OFFLINE,
    "kvstore requires no other model.": OFFLINE,
    "A lookup returns only occurrences of the requested name, its aliases, and names "
    "that you merged with it.": EXACT_LOOKUP,
    'store.lookup("Maria Jensen") returns only places that contain this name, one of its aliases, or a name '
    "that you merged with it.": EXACT_LOOKUP,
    "Looking up an unknown name returns nothing.": EXACT_LOOKUP,
    "kvstore explore lights opens the lights store in a browser on the same machine, without network access.": (
        "test_explorer.py::test_another_host_origin_site_or_method_is_refused",
        "test_explorer.py::test_every_page_has_its_json_and_nothing_from_elsewhere",
    ),
    "You can compare strategies (search methods) side by side, browse entities and topics, and see a map of all "
    "chunks.": (
        "test_explorer.py::test_lists_are_filtered_counted_and_paged",
        "test_explorer.py::test_strategies_are_shown_side_by_side_and_in_one_file",
        "test_explorer_browser.py::test_a_click_on_a_name_shows_its_surroundings",
        "test_explorer_browser.py::test_a_point_shows_its_label",
        "test_explorer_pictures.py::test_the_map_places_every_chunk_and_a_question",
    ),
    "Each sentence of an answer links to its place in the source document.": (
        "test_explorer.py::test_a_mark_has_the_bytes_that_are_cited",
    ),
    "All fifteen strategies search the same store, and most of them implement published methods.": (
        "test_retrieval.py::test_every_strategy_finds_the_document_that_answers",
        "test_documentation.py::test_tables_list_the_settings_embedders_strategies_and_extras",
    ),
    'You can choose a strategy for each query: write USING bridge in a statement or using="bridge" in Python.': (
        "test_retrieval.py::test_every_strategy_finds_the_document_that_answers",
    ),
    "EXPLAIN shows the steps of a strategy.": (
        "test_retrieval.py::test_every_strategy_finds_the_document_that_answers",
    ),
    "The library opens no network port, and file permissions control access to a store.": (
        "test_environment.py::test_a_user_without_the_right_to_write_reads_and_keeps_writers_out",
    ),
    "Only one process at a time can write to a store.": ONE_WRITER,
    "Unless you configure a language model, answers consist of sentences from the documents.": EXTRACTIVE,
    "kvstore finds relations only in English prose, and entities (people, places and things) only in the prose "
    "of English and eight other languages.": NAMES_BY_RULE,
    "In all other languages, it finds entities only in code and in structure such as titles, headings and "
    "nested lists.": NAMES_BY_RULE,
    "kvstore supports Linux with Python 3.11 or newer.": (
        "test_package.py::test_a_wheel_built_from_the_source_archive_works_outside_the_checkout",
    ),
    "kvstore declines to answer most questions about a subject that no document covers (98 % in a test with "
    "English articles).": (
        "test_answers.py::test_a_missing_fact_is_not_answered",
        "test_unspaced_writing.py::test_a_question_about_something_else_is_refused",
    ),
    "The answer then has abstained = True and names the nearest chunks.": (
        "test_answers.py::test_a_missing_fact_is_not_answered",
        "test_unspaced_writing.py::test_a_question_about_something_else_is_refused",
    ),
    "A document and all data derived from it become visible in one transaction or not at all.": ATOMIC,
    "A search therefore never sees a partly indexed document, and a store needs no repair after a crash.": (
        *ONE_STATE,
        "test_crashes.py::test_a_writer_killed_at_every_kind_of_point",
    ),
    "The content of a store and its answers depend only on its documents, its settings and its facts.": SAME_DUMP
    + SAME_ANSWERS,
    "Earlier changes, deleted data, internal ids, times and batches have no influence.": SAME_DUMP + SAME_ANSWERS,
    "After any sequence of changes, a store has the same logical dump as a new store with the same documents, "
    "facts and settings.": SAME_DUMP,
    "Tests compare stores by their logical dump, which lists the content of a store without internal ids.": SAME_DUMP,
    "Hits with equal scores are ordered by document key and then by position in the text; a limit such as TOP "
    "applies after this ordering.": (
        "test_ties.py::test_hits_of_equal_score_are_ordered_by_key_and_position",
        "test_units.py::test_equal_scores_are_ordered_by_key_for_any_history",
    ),
    "Deletion is exact.": (
        *SAME_DUMP,
        "test_dump_law.py::test_deleting_many_documents_together_leaves_the_dump_of_a_fresh_store",
        *LAST_STATEMENT,
    ),
    "kvstore records the source documents of all derived data, such as relations.": LAST_STATEMENT,
    "When the last source document of a relation is deleted, the relation is deleted too.": LAST_STATEMENT,
    "An entity (a person, place or thing) is known as long as a document or a stated fact introduces its name, "
    "for example as a title.": INTRODUCED,
    "The commit that removes the last introduction of an entity also removes all its mentions.": INTRODUCED,
    "The commit that introduces an entity also finds its mentions in older documents.": INTRODUCED,
    "The accepted edges depend only on the set of asserted edges, not on their order.": (
        *SAME_DUMP,
        "test_edge_filter.py::test_any_history_gives_the_statuses_of_the_remaining_documents",
        "test_edges.py::test_stating_twice_and_withdrawing_twice_change_nothing",
    ),
    "It accepts a displaced edge again once the edges that displaced it are removed.": (
        *SAME_DUMP,
        "test_store.py::test_expand_survives_a_cycle_and_reports_truncation",
        "test_edge_filter.py::test_a_nearer_edge_displaces_the_distant_one_and_gives_it_back",
        "test_edge_filter.py::test_of_a_cycle_the_edge_with_least_evidence_yields_until_the_others_are_gone",
    ),
    "kvstore ignores (displaces) an edge that would close a cycle or that a longer path makes redundant.": (
        *SAME_DUMP,
        "test_store.py::test_expand_survives_a_cycle_and_reports_truncation",
        "test_edge_filter.py::test_a_nearer_edge_displaces_the_distant_one_and_gives_it_back",
        "test_edge_filter.py::test_of_a_cycle_the_edge_with_least_evidence_yields_until_the_others_are_gone",
    ),
    "The score of a chunk does not depend on where its vector is stored.": (
        *SAME_ANSWERS,
        "test_embedders.py::test_minilm_gives_a_text_the_same_vector_in_any_company",
    ),
    "The vector of a text does not depend on other texts in the same batch.": (
        *SAME_ANSWERS,
        "test_embedders.py::test_minilm_gives_a_text_the_same_vector_in_any_company",
    ),
    "Only approximate vector search depends on the order of changes.": (
        "test_indexes.py::test_a_search_reports_its_method",
        "test_indexes.py::test_below_the_threshold_there_is_no_file",
    ),
    "In a store of 20,000 chunks or more, vector search uses a graph whose links depend on the order of changes.": (
        "test_indexes.py::test_a_search_reports_its_method",
        "test_indexes.py::test_below_the_threshold_there_is_no_file",
    ),
    "EXPLAIN shows whether a vector search was approximate.": ("test_indexes.py::test_a_search_reports_its_method",),
    "The exact = 1 option makes it exact.": ("test_indexes.py::test_a_search_reports_its_method",),
    "Data that every commit updates is always identical to that of a new store with the same documents.": SAME_DUMP,
    "The REFRESH statement builds these groups and summaries, and kvstore reports how many changes have been "
    "made since the last REFRESH.": REFRESHED,
    "Even if groups are out of date, queries never return content from deleted documents, and kvstore assigns "
    "new documents to the existing groups.": REFRESHED,
    "kvstore finds entities and relations with rules and a parser.": (
        *OFFLINE,
        *EXTRACTIVE,
    ),
    "With the default settings, kvstore works offline.": OFFLINE,
    "Before you run REFRESH or EXTRACT with a language model, you can estimate the number of tokens with EXPLAIN.": (
        "test_generations.py::test_statements_report_the_cost_before_they_ask_a_model",
        "test_extract.py::test_the_same_passage_in_several_documents_is_requested_once",
    ),
    "kvstore stores the texts that the model writes, and never requests a stored text again.": (
        "test_generations.py::test_statements_report_the_cost_before_they_ask_a_model",
        "test_extract.py::test_the_same_passage_in_several_documents_is_requested_once",
    ),
    "A language model can improve the results.": (
        "test_generations.py::test_statements_report_the_cost_before_they_ask_a_model",
        "test_extract.py::test_the_same_passage_in_several_documents_is_requested_once",
    ),
    "To look up the name of an entity, kvstore first finds candidates in a cuckoo filter, a hash table that "
    "stores a twelve-bit hash of each entity name.": EXACT_LOOKUP,
    "It then compares the requested name with the full name of each candidate.": EXACT_LOOKUP,
    "By default, kvstore splits each document into chunks of about 100 words.": (
        "test_extraction.py::test_chunks_are_about_as_long_as_configured_and_end_with_sentences",
        "test_extraction.py::test_a_chunk_never_crosses_a_heading",
    ),
    "If possible, a chunk ends at the end of a sentence.": (
        "test_extraction.py::test_chunks_are_about_as_long_as_configured_and_end_with_sentences",
        "test_extraction.py::test_a_chunk_never_crosses_a_heading",
    ),
    "No chunk contains text from two sections.": (
        "test_extraction.py::test_chunks_are_about_as_long_as_configured_and_end_with_sentences",
        "test_extraction.py::test_a_chunk_never_crosses_a_heading",
    ),
    "Each group of up to five consecutive chunks has an abstract, which summarizes the group.": (
        "test_extraction.py::test_every_character_lies_in_one_chunk_and_one_leaf",
    ),
    "Higher-level abstracts summarize the sections of a document or, if the document has no headings, groups of "
    "similar text.": FOREST,
    "The abstracts of a document form a tree.": (
        "test_extraction.py::test_every_character_lies_in_one_chunk_and_one_leaf",
        *FOREST,
    ),
    "kvstore recognizes entities (people, places and other named things) in all text.": (
        "test_mentions.py::test_mentions_are_those_put_last",
        "test_names.py::test_every_name_of_a_document_occurs_in_it_or_in_a_tree",
    ),
    "The places where an entity occurs are its mentions.": (
        "test_mentions.py::test_mentions_are_those_put_last",
        "test_names.py::test_every_name_of_a_document_occurs_in_it_or_in_a_tree",
    ),
    "Nested lists, headings, sentences and tables can state that one entity is below "
    "another, such as tug below ship.": (
        "test_store.py::test_pairs_make_a_tree_that_expands",
        "test_relations.py::test_nested_lists_and_headings_are_hierarchies",
        "test_relations.py::test_relations_of_the_gold_set_are_found",
    ),
    "Such a statement is an edge.": (
        "test_store.py::test_pairs_make_a_tree_that_expands",
        "test_relations.py::test_nested_lists_and_headings_are_hierarchies",
        "test_relations.py::test_relations_of_the_gold_set_are_found",
    ),
    "The accepted edges form the entity forest, a set of trees.": (
        "test_store.py::test_pairs_make_a_tree_that_expands",
        "test_edges.py::test_many_edges_of_one_transaction_make_one_tree",
    ),
    "kvstore can rebuild, or do without, every other file in a store.": (
        "test_indexes.py::test_an_unusable_file_counts_as_missing",
    ),
    "Readers never wait for a writer and need no server.": ONE_WRITER,
    "LMDB ends a commit by writing a single page, so after a crash, the store is in the state either before or "
    "after the commit.": ("test_crashes.py::test_a_writer_killed_at_any_time",),
    "LMDB allows one writer at a time and needs a local disk.": ONE_WRITER,
    "It also needs a memory map as large as the store may become.": (
        "test_environment.py::test_the_map_starts_far_larger_than_the_file",
    ),
    "The memory map reserves addresses, but no disk space.": (
        "test_environment.py::test_the_map_starts_far_larger_than_the_file",
    ),
    "kvstore collects these changes in the change buffer, and later applies the changes of many commits at once.": (
        "test_patches.py::test_a_replaced_document_changes_few_pages",
        "test_patches.py::test_a_large_commit_appends_to_tables_and_buffers_the_rest",
    ),
    "A commit makes small changes in many places in the data file.": (
        "test_patches.py::test_a_replaced_document_changes_few_pages",
        "test_patches.py::test_a_large_commit_appends_to_tables_and_buffers_the_rest",
    ),
    "Replacing a document therefore writes tens of pages instead of hundreds.": (
        "test_patches.py::test_a_replaced_document_changes_few_pages",
    ),
    "No package imports a package from a higher layer, and there are no import cycles.": (
        "test_contributing.py::test_the_picture_of_the_layers_is_that_of_pyproject",
        "test_contributing.py::test_targets_of_make_exist",
    ),
    "The make lint command enforces these rules.": (
        "test_contributing.py::test_the_picture_of_the_layers_is_that_of_pyproject",
        "test_contributing.py::test_targets_of_make_exist",
    ),
    "The folder defines the system's data, how it changes with the documents, how it is checked, and the "
    "strategies that use it.": (
        "test_systems.py::test_no_file_of_the_package_knows_it",
        "test_systems.py::test_the_line_of_each_folder_describes_its_system",
    ),
    "Adding a system to kvstore takes only a folder and a line in the registry.": (
        "test_systems.py::test_no_file_of_the_package_knows_it",
        "test_systems.py::test_an_external_system_is_recorded_in_the_commit_and_shown",
    ),
    "A system in your own program requires no change to kvstore.": (
        "test_systems.py::test_no_file_of_the_package_knows_it",
        "test_systems.py::test_an_external_system_is_recorded_in_the_commit_and_shown",
    ),
}

#: The sentences that state a measured result, with the tool that measures it.
FIGURES = {
    "To measure these shares, run python tools/evaluate_answers.py folders squad2 "
    "--limit 110.": "tools/evaluate_answers.py",
    "In our tests, kvstore refuses 93 % of the unanswerable questions about three "
    "folders of real documents.": "tools/evaluate_answers.py",
    "For articles from the SQuAD 2.0 data set that we did not use for tuning, the "
    "share is 49 %.": "tools/evaluate_answers.py",
    "Without the answer reader (a small neural network in the kvstore-db-english package), these shares drop to "
    "23 % and 7 %.": "tools/evaluate_answers.py",
    "All figures were measured with default settings and no language model (more figures):": "tools/evaluate.py",
    "This table compares the default strategy, adaptive, with three simple searches.": "tools/evaluate.py",
    "On our data sets of ordinary documents and of multi-hop questions, no single search (vector, lexical or "
    "hybrid) is better than the default strategy, adaptive.": "tools/evaluate.py",
}

#: The sentences that promise nothing: they define a term, explain a reason or name a limit.
DESCRIPTIONS = {
    "As a consequence:",
    "On Windows, it runs only in WSL.",
    "Each chunk also has a vector.",
    "Each system (normally the implementation of one paper) has its own folder in the source.",
    "kvstore is an embedded knowledge store for Python: what SQLite is to tables, kvstore is to "
    "retrieval-augmented generation (RAG).",
    "To install the explorer, run pip install '.[explore]'.",
    "Its pages are described in Look at a store.",
    "A strategy is a method of finding the chunks that answer a question.",
    "Answering a multi-hop question takes several chunks, because one chunk names the subject of the next.",
    "For other systems, see Platforms.",
    "Some strategies use communities, which are groups of related entities (people, places and things).",
    "Before you use these strategies, run the CREATE INDEX communities statement.",
    "For 2WikiMultiHopQA, the fast-graphrag repository reports these shares: 0.42 for a vector database, 0.45 "
    "for LightRAG, 0.73 for GraphRAG and 0.93 for fast-graphrag.",
    "The last three use a language model for indexing.",
    "kvstore is not a server.",
    "kvstore does not work on network file systems, which do not support file locks and memory maps reliably.",
    "kvstore does not write in parallel.",
    "kvstore does not distribute a store across several machines.",
    "kvstore does not write new text by itself.",
    "If kvstore fails to recognize such a question, it answers with sentences close to the question, so check "
    "the cited text.",
    "kvstore does not always recognize an unanswerable question: one whose topic the documents cover, but whose "
    "answer they do not contain.",
    "This page lists kvstore's guarantees and the reasons for them.",
    "The source follows a document and a question through the code.",
    "The format on disk describes the files of a store.",
    "Derived data includes chunks, vectors, entities (people, places and things) and summaries.",
    "An edge states that one entity is below another in a hierarchy.",
    "A document is a text with a key, a title, a source (the path of its file) and metadata.",
    "A graph links each chunk to the entities that it mentions.",
    "For each word, a posting list contains the chunks with this word and the data needed to score them.",
    "An index of titles and metadata values speeds up conditions (WHERE).",
    "All of this data is in the data.mdb file.",
    "Some data, such as groups of related entities and summaries of many documents, would be expensive to "
    "update in every commit.",
    "LMDB, kvstore's storage library, stores all data in one memory-mapped, copy-on-write file.",
    "For a list of the layers, see The source.",
    "For subjects that the documents do cover, see the figures on unanswerable questions in Ask.",
    "Facts are statements that users add, such as an alias of an entity.",
}

#: A bold phrase with a final period at the start of a paragraph is a heading, not a sentence.
_LIST_MARK_AND_HEADING = re.compile(r"^\s*(?:- )?(?:\*\*[^*]+\.\*\* )?")


def read_sentences(page: str) -> Iterator[str]:
    """Yield the sentences in the sections of a page, without markup, tables, images and code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$|<!--.*?-->|^(?:\||!\[)[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        if title.strip() not in SECTIONS[page]:
            continue
        for paragraph in re.split(r"\n\s*\n|\n(?=- )", body):
            if plain := " ".join(remove_markup(paragraph).split()):
                yield from re.split(r"(?<=[.:;]) (?=[A-Z]|kvstore )", plain)


def remove_markup(paragraph: str) -> str:
    """Return a paragraph without its list mark, heading, links, emphasis and backquotes."""
    paragraph = _LIST_MARK_AND_HEADING.sub("", paragraph)
    paragraph = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", paragraph)
    return re.sub(r"\*\*|`|(?<!\w)\*|\*(?!\w)", "", paragraph)


@pytest.mark.parametrize("page", SECTIONS)
def test_each_sentence_has_its_tests_or_promises_nothing(page: str) -> None:
    listed = {*PROMISES, *FIGURES, *DESCRIPTIONS}
    unlisted = [sentence for sentence in read_sentences(page) if sentence not in listed]
    assert unlisted == []


def test_every_listed_sentence_is_on_a_page() -> None:
    sentences = {sentence for page in SECTIONS for sentence in read_sentences(page)}
    assert {*PROMISES, *FIGURES, *DESCRIPTIONS} - sentences == set()


def test_the_tests_and_tools_exist() -> None:
    for names in PROMISES.values():
        assert names
        for name in names:
            file, _, function = name.partition("::")
            text = (Path(__file__).parent / file).read_text(encoding="utf-8")
            assert re.search(rf"^ *def {function}\(", text, re.MULTILINE), name
    for tool in FIGURES.values():
        assert (ROOT / tool).is_file()
