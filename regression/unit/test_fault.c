/* TEST timeout=30 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/fault.h"
#include "penta/base/log.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The segv drill is to end as it would without a sanitizer's own handler. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "handle_segv=0";
}

static pt_status_t init_with(const char *text)
{
    setenv("PENTA_FAULT", text, 1);
    pt_error_clear();
    return pt_fault_init();
}

static void test_parse(void)
{
    static const char *const bad[] = {
        "checkpoint.write",
        "checkpoint.write:0:1",
        "checkpoint.write:0:1:io:x",
        ":0:1:io",
        "checkpoint.write:x:1:io",
        "checkpoint.write:0:x:io",
        "checkpoint.write:0:-1:io",
        "checkpoint.write:0:1:",
        "checkpoint.write:0:1:fire",
        "checkpoint.rite:0:1:io",
        "save:0:1:io",
        "checkpoint.write:0:1:io,",
        ",checkpoint.write:0:1:io",
        "checkpoint.write::1:io",
        "a-site-whose-name-is-much-longer-than-any-that-could-be-in-use-here:0:1:io"};
    char many[4096] = "checkpoint.write:0:0:io";

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pt_status_t status = init_with(bad[i]);
        tap_ok(status == PT_CONFIG && pt_error_last()->scope == PT_SCOPE_COMMON &&
                   strstr(pt_error_last()->text, "PENTA_FAULT") &&
                   pt_fault("checkpoint.write") == PT_FAULT_NONE,
               "refused: %s", bad[i]);
    }
    for (int i = 1; i < 16; i++)
        strncat(many, ",checkpoint.write:0:0:io", sizeof many - strlen(many) - 1);
    tap_ok(init_with(many) == PT_OK, "sixteen are read");
    strncat(many, ",checkpoint.write:0:0:io", sizeof many - strlen(many) - 1);
    tap_ok(init_with(many) == PT_CONFIG, "refused: seventeen");
    for (int i = 0; i < 4000; i++)
        many[i] = 'x';
    tap_ok(init_with(many) == PT_CONFIG, "refused: one that never ends");
    pt_error_clear();
    unsetenv("PENTA_FAULT");
    tap_ok(pt_fault_init() == PT_OK && pt_fault("checkpoint.write") == PT_FAULT_NONE,
           "unset is none");
    tap_ok(init_with("") == PT_OK && pt_fault("checkpoint.write") == PT_FAULT_NONE,
           "empty is none");
}

/* doc/errors.md has the same table. */
static void test_kinds(void)
{
    static const char *const everywhere = "kill exit segv sleep slow";
    static const struct {
        const char *site, *kinds;
    } rows[] = {
        {"train.setup", ""},
        {"train.gradient", "nan"},
        {"checkpoint.create", "io nospace"},
        {"checkpoint.write", "io nospace"},
        {"checkpoint.close", "io nospace"},
        {"checkpoint.rename", "io nospace"},
        {"checkpoint.renamed", "io nospace"},
        {"checkpoint.open", "io"},
        {"checkpoint.read", "io"},
        {"checkpoint.again", "io"},
    };
    static const char *const kinds[] = {"kill", "exit", "segv",    "sleep",
                                        "slow", "io",   "nospace", "nan"};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            char text[96];
            bool wanted =
                strstr(everywhere, kinds[k]) || strstr(rows[r].kinds, kinds[k]);

            snprintf(text, sizeof text, "%s:0:1:%s", rows[r].site, kinds[k]);
            pt_status_t status = init_with(text);
            tap_ok(wanted ? status == PT_OK
                          : status == PT_CONFIG &&
                                strstr(pt_error_last()->text, rows[r].site) &&
                                strstr(pt_error_last()->text, "kinds: kill, exit"),
                   "%s: %s", wanted ? "taken" : "refused", text);
        }
}

static void test_match(void)
{
    pt_where_t where = PT_WHERE_INIT;

    pt_log_set_level(PT_LOG_ERROR);
    pt_log_set_where(&where);
    pt_log_set_rank(2, 4, "here");
    tap_ok(init_with("checkpoint.write:2:7:io,checkpoint.write:*:8:nospace,train."
                     "gradient:2:*:nan,checkpoint.create:1:*:io") == PT_OK,
           "a list is read");
    tap_ok(pt_fault("checkpoint.write") == PT_FAULT_NONE, "not outside steps");
    where.step = 7;
    tap_ok(pt_fault("checkpoint.write") == PT_FAULT_IO, "io at its step");
    where.step = 8;
    tap_ok(pt_fault("checkpoint.write") == PT_FAULT_NOSPACE, "nospace on any rank");
    where.step = 9;
    tap_ok(pt_fault("checkpoint.write") == PT_FAULT_NONE, "not at another step");
    tap_ok(pt_fault("train.gradient") == PT_FAULT_NAN, "nan at any step");
    tap_ok(pt_fault("checkpoint.create") == PT_FAULT_NONE, "not on another rank");
    tap_ok(pt_fault("checkpoint.writ") == PT_FAULT_NONE &&
               pt_fault("checkpoint.writes") == PT_FAULT_NONE,
           "sites match whole");
    where.step = -1;
    tap_ok(pt_fault("train.gradient") == PT_FAULT_NAN, "any step is also none");
    pt_log_set_where(NULL);
}

/* How a child ends that meets this failure; `patience` in microseconds for one that
 * does not. */
static int ending(const char *text, useconds_t patience)
{
    int status = 0;
    pid_t child;

    if (init_with(text) != PT_OK)
        return 0;
    child = fork();
    if (child == 0) {
        pt_fault("checkpoint.close");
        _exit(42);
    }
    if (patience > 0) {
        usleep(patience);
        if (waitpid(child, &status, WNOHANG) != 0)
            return status;
        kill(child, SIGTERM);
    }
    waitpid(child, &status, 0);
    return status;
}

static void test_act(void)
{
    int status;

    status = ending("checkpoint.close:2:*:kill", 0);
    tap_ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "kill");
    status = ending("checkpoint.close:2:*:segv", 0);
    tap_ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "segv");
    status = ending("checkpoint.close:2:*:exit", 0);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 1, "exit");
    status = ending("checkpoint.close:2:*:sleep", 200000);
    tap_ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "sleep");
    status = ending("checkpoint.close:2:*:slow", 200000);
    tap_ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "slow takes its time");
    status = ending("checkpoint.close:2:*:slow", 0);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 42, "slow goes on");
    status = ending("checkpoint.write:2:*:kill", 0);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 42, "no failure, no effect");
}

int main(void)
{
    test_parse();
    test_kinds();
    test_match();
    test_act();
    return tap_done();
}
