/* TEST timeout=20 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/alloc.h"

#include <string.h>

/* Requests that no machine can fill are part of this test; sanitizers would end it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static int failed_with(pt_status_t got, pt_status_t want, const char *text)
{
    int ok = got == want && strstr(pt_error_last()->text, text) != NULL;

    if (!ok)
        tap_note("%s: %s", pt_status_name(got), pt_error_last()->text);
    pt_error_clear();
    return ok;
}

static void test_basics(void)
{
    int64_t *numbers = NULL, sum = 0;
    char *text = NULL, *empty = NULL;

    tap_ok(pt_alloc_live_bytes() == 0, "nothing in use at start");
    tap_ok(PT_NEW("numbers", 1000, &numbers) == PT_OK && numbers, "allocates");
    for (int i = 0; i < 1000; i++)
        sum |= numbers[i];
    tap_ok(sum == 0, "zeroed");
    tap_ok((uintptr_t)numbers % _Alignof(max_align_t) == 0, "aligned");
    tap_ok(pt_alloc_live_bytes() == 8000, "counted");
    tap_ok(pt_strdup("text", "tokens", &text) == PT_OK && strcmp(text, "tokens") == 0 &&
               pt_alloc_live_bytes() == 8007,
           "copies text");
    tap_ok(PT_NEW("none", 0, &empty) == PT_OK && empty,
           "count 0 gives a valid pointer");
    pt_free(empty);
    pt_free(text);
    pt_free(numbers);
    pt_free(NULL);
    tap_ok(pt_alloc_live_bytes() == 0, "all given back");
}

static void test_realloc(void)
{
    int *list = NULL;
    int good = 1;

    tap_ok(pt_realloc("list", 0, 4, sizeof *list, (void **)&list) == PT_OK && list,
           "from nothing");
    for (int i = 0; i < 4; i++)
        list[i] = i + 1;
    tap_ok(pt_realloc("list", 4, 1000, sizeof *list, (void **)&list) == PT_OK, "grows");
    for (int i = 0; i < 1000; i++)
        good = good && list[i] == (i < 4 ? i + 1 : 0);
    tap_ok(good, "keeps the old, zeroes the new");
    int *before = list;
    tap_ok(failed_with(
               pt_realloc("list", 1000, SIZE_MAX / 2, sizeof *list, (void **)&list),
               PT_MEMORY, "list") &&
               list == before && list[3] == 4,
           "a failure leaves the list as it was");
    tap_ok(failed_with(pt_realloc("list", 999, 2000, sizeof *list, (void **)&list),
                       PT_INTERNAL, "violated"),
           "a wrong old count is found");
    tap_ok(pt_realloc("list", 1000, 2, sizeof *list, (void **)&list) == PT_OK &&
               list[1] == 2 && pt_alloc_live_bytes() == 2 * sizeof *list,
           "shrinks");
    pt_free(list);
}

static void test_failures(void)
{
    char *p = (char *)&p;
    char *text = NULL;
    volatile size_t huge = SIZE_MAX / 4;

    tap_ok(failed_with(pt_alloc("wide", SIZE_MAX / 2 + 2, 2, (void **)&p), PT_MEMORY,
                       "wide") &&
               p == NULL,
           "a product that overflows is refused");
    tap_ok(failed_with(pt_alloc("rim", SIZE_MAX - 3, 1, (void **)&p), PT_MEMORY, "rim"),
           "so is a sum");
    tap_ok(failed_with(pt_alloc("huge", huge, 1, (void **)&p), PT_MEMORY, "huge"),
           "what the machine cannot give is an error that names it");
    pt_alloc_seal();
    pt_alloc_seal();
    pt_alloc_unseal();
    tap_ok(failed_with(PT_NEW("late", 1, &p), PT_INTERNAL, "late"),
           "sealed, twice deep");
    tap_ok(failed_with(pt_strdup("late", "x", &text), PT_INTERNAL, "late") && !text,
           "copies too");
    pt_alloc_unseal();
    tap_ok(PT_NEW("early", 1, &p) == PT_OK, "unsealed");
    pt_free(p);
    tap_ok(pt_alloc_live_bytes() == 0, "failures are not counted");
}

int main(void)
{
    test_basics();
    test_realloc();
    test_failures();
    return tap_done();
}
