/* TEST timeout=20 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "penta/base/status.h"

#include <errno.h>
#include <pthread.h>
#include <regex.h>
#include <string.h>
#include <unistd.h>

static char output[16384];

/* What `body` writes to stderr, in `output`. */
static const char *captured(void (*body)(void))
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    ssize_t length;

    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    body();
    dup2(saved, STDERR_FILENO);
    close(saved);
    length = pread(fileno(file), output, sizeof output - 1, 0);
    output[length > 0 ? length : 0] = '\0';
    fclose(file);
    return output;
}

static int matches(const char *text, const char *pattern)
{
    regex_t regex;
    int found;

    regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB);
    found = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    if (!found)
        tap_note("\"%s\" is not like \"%s\"", text, pattern);
    return found;
}

static pt_status_t deep(void)
{
    return PT_FAIL(PT_IO, "cannot read %s: byte %d", "corpus.bin", 7);
}

static pt_status_t middle(void)
{
    PT_TRY(deep());
    return PT_OK;
}

static pt_status_t outer(void)
{
    pt_status_t status;

    PT_TRY_GOTO(done, middle());
done:
    return status;
}

static pt_status_t second(void)
{
    return PT_FAIL_COMMON(PT_CONFIG, "a consequence");
}

static pt_status_t odd(int value)
{
    PT_REQUIRE(value % 2 == 1);
    return PT_OK;
}

static void test_codes(void)
{
    tap_ok(pt_status_exit_code(PT_OK) == 0 && pt_status_exit_code(PT_INTERNAL) == 1 &&
               pt_status_exit_code(PT_CONFIG) == 2 &&
               pt_status_exit_code(PT_MEMORY) == 3 && pt_status_exit_code(PT_IO) == 4 &&
               pt_status_exit_code(PT_NUMERIC) == 5 &&
               pt_status_exit_code(PT_HANG) == 6 &&
               pt_status_exit_code(PT_STOPPED) == 75 &&
               pt_status_exit_code(PT_ABORTED) == 130,
           "exit codes are those that job scripts know");
    tap_ok(strcmp(pt_status_name(PT_CONFIG), "CONFIG") == 0 &&
               strcmp(pt_status_sentence(PT_HANG), "hang") == 0,
           "a status has a name and a sentence");
    tap_ok(strcmp(pt_status_name((pt_status_t)99), "INTERNAL") == 0,
           "a status from nowhere is an internal error");
}

static void test_record(void)
{
    pt_where_t where = PT_WHERE_INIT;
    const pt_error_t *error = pt_error_last();

    tap_ok(error->status == PT_OK, "no error at start");
    where.step = 12;
    pt_log_set_where(&where);
    tap_ok(outer() == PT_IO, "the code climbs");
    pt_log_set_where(NULL);
    tap_ok(error->status == PT_IO && error->scope == PT_SCOPE_LOCAL && !error->reported,
           "the record has code and scope");
    tap_ok(strcmp(error->text, "cannot read corpus.bin: byte 7") == 0, "and the text");
    tap_ok(error->where.step == 12, "and the place in the run");
    tap_ok(error->depth == 3 && error->trace[0].line < error->trace[1].line &&
               error->trace[1].line < error->trace[2].line &&
               strstr(error->trace[0].file, "test_status.c"),
           "and a trace, innermost first");
    tap_ok(second() == PT_CONFIG && error->status == PT_IO &&
               error->scope == PT_SCOPE_LOCAL,
           "the first unreported error stays");
    for (int i = 0; i < 100; i++)
        pt_error_trace(PT_IO, __FILE__, __LINE__);
    tap_ok(error->depth == PT_ERROR_TRACE, "a long trace is cut");
    pt_error_clear();
    tap_ok(error->status == PT_OK && error->depth == 0, "cleared");
    tap_ok(odd(3) == PT_OK && odd(4) == PT_INTERNAL &&
               strcmp(error->text, "violated: value % 2 == 1") == 0,
           "PT_REQUIRE names the condition");
    pt_error_t copy = *error;
    pt_error_clear();
    copy.reported = true;
    pt_error_set(&copy);
    tap_ok(error->status == PT_INTERNAL, "a record can be replaced");
    tap_ok(second() == PT_CONFIG && error->status == PT_CONFIG && !error->reported &&
               error->scope == PT_SCOPE_COMMON && error->depth == 1,
           "a reported error makes room for the next");
    pt_error_clear();
}

static pt_status_t refused(int number)
{
    PT_CHECK_OS(number == 0, PT_IO, number, "%s: %m; byte %d", "corpus.bin", 7);
    return PT_OK;
}

static void test_system(void)
{
    const pt_error_t *error = pt_error_last();

    tap_ok(refused(0) == PT_OK && refused(EFBIG) == PT_IO && error->os_error == EFBIG,
           "the errno of a system call is on record");
    tap_ok(strcmp(error->text, "corpus.bin: File too large; byte 7") == 0,
           "and what it means in the text");
    (void)refused(EDQUOT);
    tap_ok(error->os_error == EFBIG, "that of the first failure");
    pt_error_clear();
    errno = EDQUOT;
    (void)deep();
    tap_ok(error->os_error == 0, "a failure of no system call has none");
    pt_error_clear();
}

static void *other_thread(void *context)
{
    *(pt_status_t *)context = pt_error_last()->status;
    (void)deep();
    pt_error_clear();
    return NULL;
}

static void test_threads(void)
{
    pthread_t thread;
    pt_status_t seen = PT_HANG;

    (void)deep();
    pthread_create(&thread, NULL, other_thread, &seen);
    pthread_join(thread, NULL);
    tap_ok(seen == PT_OK && pt_error_last()->status == PT_IO,
           "each thread has its own record");
    pt_error_clear();
}

static void print_twice(void)
{
    pt_error_print();
    pt_error_print();
}

static void warn(void)
{
    pt_error_warn("checkpoint skipped");
}

static void test_print(void)
{
    pt_where_t where = PT_WHERE_INIT;

    where.step = 12;
    where.phase = PT_PHASE_BACKWARD;
    where.layer = 3;
    where.micro_batch = 1;
    where.site = "attention";
    pt_log_set_rank(3, 4, "node7");
    pt_log_set_where(&where);
    (void)outer();
    tap_ok(matches(captured(print_twice),
                   "^[0-9T:Z-]{20} rank 3 step 12 error: cannot read "
                   "corpus.bin: byte 7 \\(step 12, backward, layer 3, micro-batch 1, "
                   "attention; host node7\\)\n$"),
           "a local error is printed once, with place and host");
    tap_ok(pt_error_last()->reported, "and is marked");
    (void)second();
    tap_ok(matches(captured(print_twice), "^$"),
           "a common error is silent beside rank 0");
    pt_log_set_where(NULL);
    pt_log_set_rank(0, 4, "node0");
    pt_log_set_level(PT_LOG_DEBUG);
    (void)second();
    tap_ok(matches(captured(print_twice),
                   "^[0-9T:Z-]{20} rank 0 error: a consequence\n"
                   "[0-9T:Z-]{20} rank 0: raised at [^ ]*test_status.c:"
                   "[0-9]+\n$"),
           "rank 0 prints it, the trace at debug level");
    pt_log_set_level(PT_LOG_INFO);
    pt_error_clear();
    (void)second();
    tap_ok(matches(captured(warn), "^[0-9T:Z-]{20} rank 0 warning: checkpoint skipped: "
                                   "a consequence\n$"),
           "who recovers warns");
    tap_ok(pt_error_last()->status == PT_OK, "which clears the record");
    tap_ok(matches(captured(warn), "^$") && matches(captured(print_twice), "^$"),
           "nothing to print without an error");
}

static void warn_ten_times(void)
{
    for (int i = 1; i <= 10; i++) {
        (void)PT_FAIL(PT_IO, "failure %d.", i);
        pt_error_warn_seldom("stays");
        (void)PT_FAIL(PT_IO, "other %d.", i);
        pt_error_warn_seldom("goes");
    }
}

static void test_seldom(void)
{
    const char *lines = captured(warn_ten_times);
    int count = 0;

    for (const char *at = lines; (at = strstr(at, "warning: stays: failure ")); at++)
        count++;
    tap_ok(count == 4 && strstr(lines, "failure 1.") && strstr(lines, "failure 2.") &&
               strstr(lines, "failure 4.") && strstr(lines, "failure 8."),
           "what fails again and again is told the first, second, fourth … time");
    tap_ok(strstr(lines, "goes: other 8.") && !strstr(lines, "other 9."),
           "each prefix by itself");
    tap_ok(pt_error_last()->status == PT_OK, "and the record is cleared each time");
}

static void two_lines(void)
{
    pt_log_all(PT_LOG_INFO, "loss %.2f", 1.5);
    pt_log_root(PT_LOG_WARN, "slow");
    pt_log_root(PT_LOG_DEBUG, "detail");
}

static void long_line(void)
{
    static char text[9000];

    memset(text, 'x', sizeof text - 1);
    pt_log_all(PT_LOG_ERROR, "%s", text);
}

static void test_log(void)
{
    pt_where_t where = PT_WHERE_INIT;
    char text[256];

    tap_ok(
        matches(
            captured(two_lines),
            "^[0-9T:Z-]{20} rank 0: loss 1.50\n[0-9T:Z-]{20} rank 0 warning: slow\n$"),
        "lines by level, no step outside steps");
    pt_log_set_rank(2, 4, "node2");
    tap_ok(matches(captured(two_lines), "^[0-9T:Z-]{20} rank 2: loss 1.50\n$"),
           "pt_log_root speaks on rank 0 only");
    pt_log_set_level(PT_LOG_ERROR);
    tap_ok(matches(captured(two_lines), "^$"), "a level silences what is below");
    tap_ok(matches(captured(long_line), "^[0-9T:Z-]{20} rank 2 error: x+\n$") &&
               strlen(output) <= 4096,
           "a line too long is cut and still ends");
    tap_ok(strcmp(pt_log_host(), "node2") == 0 && pt_log_rank() == 2, "who speaks");
    tap_ok(strcmp(pt_where_text(&where, text, sizeof text), "set-up") == 0,
           "where at the start");
    where.chunk = 0;
    where.phase = PT_PHASE_FORWARD;
    tap_ok(strcmp(pt_where_text(&where, text, sizeof text), "forward, chunk 0") == 0,
           "zero is a place");
    tap_ok(strcmp(pt_where_text(&where, text, 5), "forw") == 0, "cut to the buffer");
}

static void test_clock(void)
{
    char text[32];
    double before = pt_clock_sec();

    tap_ok(pt_clock_sec() >= before, "time does not run back");
    tap_ok(pt_clock_wall() > 1.7e9, "the wall clock is past 2023");
    tap_ok(matches(pt_clock_iso(text, sizeof text),
                   "^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9](:[0-6][0-9]){2}Z$"),
           "ISO time");
}

int main(void)
{
    test_codes();
    test_record();
    test_system();
    test_threads();
    test_print();
    test_seldom();
    test_log();
    test_clock();
    return tap_done();
}
