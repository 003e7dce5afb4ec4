/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/fault.h"

#include "penta/base/log.h"
#include "penta/base/text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULT_MAX = 16, SITE_SIZE = 64, FIELD_COUNT = 4, ANY = -1 };

typedef enum action {
    ACTION_KILL,
    ACTION_EXIT,
    ACTION_SEGV,
    ACTION_SLEEP,
    ACTION_STOP,
    ACTION_SLOW, /* the last kind that every site supports */
    ACTION_IO,
    ACTION_NOSPACE,
    ACTION_NAN,
    ACTION_SKIP,
    ACTION_RESIZE,
    ACTION_COUNT
} action_t;

static const char *const action_names[ACTION_COUNT] = {
    "kill", "exit",    "segv", "sleep", "stop",  "slow",
    "io",   "nospace", "nan",  "skip",  "resize"};

static const struct site {
    const char *name, *kinds; /* such as "io, nospace" */
} sites[] = {
#define PT_FAULT_SITE(name, kinds) {name, kinds},
#include "src/base/fault.def"
#undef PT_FAULT_SITE
};

typedef struct fault {
    char site[SITE_SIZE];
    int64_t rank, step; /* ANY matches all */
    action_t action;
    bool done; /* for kinds that act once */
} fault_t;

/* Read from the environment at start; only `done` changes later. */
static fault_t faults[FAULT_MAX];
static int fault_count;

static pt_status_t fault_parse_number(const char *entry, const char *field,
                                      const char *what, int64_t *out)
{
    if (strcmp(field, "*") == 0) {
        *out = ANY;
        return PT_OK;
    }
    PT_CHECK_COMMON(pt_text_int(field, out) && *out >= 0, PT_CONFIG,
                    "PENTA_FAULT: %s \"%s\" in \"%s\" is neither a number from 0 nor *",
                    what, field, entry);
    return PT_OK;
}

static pt_status_t fault_parse_action(const char *entry, const char *field,
                                      action_t *out)
{
    for (int i = 0; i < ACTION_COUNT; i++)
        if (strcmp(field, action_names[i]) == 0) {
            *out = (action_t)i;
            return PT_OK;
        }
    return PT_FAIL_COMMON(
        PT_CONFIG,
        "PENTA_FAULT: unknown kind \"%s\" in \"%s\"; kinds: kill, exit, "
        "segv, sleep, stop, slow, io, nospace, nan, skip, resize",
        field, entry);
}

/* A site that ignores a kind would make the test pass without testing anything. */
static pt_status_t fault_check_kind(const struct site *site, action_t action)
{
    const char *name = action_names[action];

    if (action <= ACTION_SLOW || strstr(site->kinds, name))
        return PT_OK;
    return PT_FAIL_COMMON(PT_CONFIG,
                          "PENTA_FAULT: %s has no kind \"%s\"; kinds: kill, exit, "
                          "segv, sleep, stop, slow%s%s",
                          site->name, name, *site->kinds ? ", " : "", site->kinds);
}

static pt_status_t fault_check_site(const char *site, action_t action)
{
    int best = 99;
    const char *nearest = "";

    for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++) {
        int distance = pt_text_distance(site, sites[i].name);
        if (distance == 0)
            return fault_check_kind(&sites[i], action);
        if (distance < best)
            best = distance, nearest = sites[i].name;
    }
    if (!pt_text_is_near(site, best))
        nearest = "";
    return PT_FAIL_COMMON(
        PT_CONFIG, "PENTA_FAULT: no site \"%s\"%s%s%s; doc/errors.md lists them", site,
        *nearest ? "; maybe: " : "", nearest, *nearest ? "?" : "");
}

static pt_status_t fault_parse(const char *entry, fault_t *fault)
{
    char copy[2 * SITE_SIZE], *rest = copy, *fields[FIELD_COUNT + 1];
    int count = 0;

    PT_CHECK_COMMON(snprintf(copy, sizeof copy, "%s", entry) < (int)sizeof copy,
                    PT_CONFIG, "PENTA_FAULT: \"%s\" is too long", entry);
    while (rest && count <= FIELD_COUNT)
        fields[count++] = strsep(&rest, ":");
    PT_CHECK_COMMON(
        count == FIELD_COUNT && fields[0][0] != '\0' && strlen(fields[0]) < SITE_SIZE,
        PT_CONFIG, "PENTA_FAULT: \"%s\" is not of the form site:rank:step:kind", entry);
    memcpy(fault->site, fields[0], strlen(fields[0]) + 1);
    PT_TRY(fault_parse_number(entry, fields[1], "rank", &fault->rank));
    PT_TRY(fault_parse_number(entry, fields[2], "step", &fault->step));
    PT_TRY(fault_parse_action(entry, fields[3], &fault->action));
    return fault_check_site(fault->site, fault->action);
}

pt_status_t pt_fault_init(void)
{
    const char *text = getenv("PENTA_FAULT");
    char copy[FAULT_MAX * 2 * SITE_SIZE], *rest = copy;
    int count = 0;

    fault_count = 0;
    if (!text || *text == '\0')
        return PT_OK;
    PT_CHECK_COMMON(snprintf(copy, sizeof copy, "%s", text) < (int)sizeof copy,
                    PT_CONFIG, "PENTA_FAULT is longer than %zu characters",
                    sizeof copy - 1);
    while (rest) {
        PT_CHECK_COMMON(count < FAULT_MAX, PT_CONFIG,
                        "PENTA_FAULT: more than %d failures", FAULT_MAX);
        PT_TRY(fault_parse(strsep(&rest, ","), &faults[count]));
        count++;
    }
    fault_count = count;
    return PT_OK;
}

void pt_fault_announce(void)
{
    if (fault_count > 0)
        pt_log_root(PT_LOG_WARN, "PENTA_FAULT is set: failures are injected: %s",
                    getenv("PENTA_FAULT"));
    for (int i = 0; i < fault_count; i++)
        if (faults[i].rank >= pt_log_size())
            pt_log_root(
                PT_LOG_WARN,
                "PENTA_FAULT: %s:%lld: there is no such rank: ranks are 0 to %d",
                faults[i].site, (long long)faults[i].rank, pt_log_size() - 1);
}

static pt_fault_kind_t fault_act(fault_t *fault)
{
    fault->done = fault->action == ACTION_SKIP || fault->action == ACTION_RESIZE;
    pt_log_all(PT_LOG_WARN, "injected failure at %s: %s", fault->site,
               action_names[fault->action]);
    switch (fault->action) {
    case ACTION_KILL: raise(SIGKILL); break;
    case ACTION_EXIT: _exit(1);
    case ACTION_SEGV: raise(SIGSEGV); break;
    case ACTION_SLEEP:
        for (;;)
            sleep(3600);
    case ACTION_STOP: raise(SIGSTOP); break;
    case ACTION_SLOW: sleep(1); break;
    case ACTION_IO: return PT_FAULT_IO;
    case ACTION_NOSPACE: return PT_FAULT_NOSPACE;
    case ACTION_NAN: return PT_FAULT_NAN;
    case ACTION_SKIP: return PT_FAULT_SKIP;
    case ACTION_RESIZE: return PT_FAULT_RESIZE;
    case ACTION_COUNT: break;
    }
    return PT_FAULT_NONE;
}

pt_fault_kind_t pt_fault(const char *site)
{
    for (int i = 0; i < fault_count; i++) {
        fault_t *fault = &faults[i];
        if (!fault->done && strcmp(fault->site, site) == 0 &&
            (fault->rank == ANY || fault->rank == pt_log_rank()) &&
            (fault->step == ANY || fault->step == pt_log_where()->step))
            return fault_act(fault);
    }
    return PT_FAULT_NONE;
}
