/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* penta inspect, called as the program calls it; and the same file seen by HDF5's own
 * tools. */
#include "regression/tap.h"
#include "regression/unit/checkpoint_file.h"

#include "src/cmd/private.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16 };

static pt_transport_t *transport;
static char out[TEXT_BYTES];

/* Runs `penta inspect a b c`; what it prints is in `out`. */
static pt_status_t inspect(const char *a, const char *b, const char *c)
{
    char copies[4][64] = {"inspect"};
    char *argv[5] = {copies[0]};
    const char *given[3] = {a, b, c};
    int argc = 1, saved, file = open("out", O_RDWR | O_CREAT | O_TRUNC, 0666);

    for (int i = 0; i < 3 && given[i]; i++, argc++) {
        snprintf(copies[argc], sizeof copies[argc], "%s", given[i]);
        argv[argc] = copies[argc];
    }
    fflush(stdout);
    saved = dup(1);
    dup2(file, 1);
    pt_error_clear();
    pt_status_t status = pt_command_inspect.run(argc, argv, transport);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    ssize_t n = pread(file, out, sizeof out - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    close(file);
    return status;
}

static bool has(const char *text)
{
    bool found = strstr(out, text) != NULL;

    if (!found)
        tap_note("missing: %s", text);
    return found;
}

static void expect_error(pt_status_t status, pt_status_t wanted, const char *text)
{
    tap_ok(status == wanted && strstr(pt_error_last()->text, text), "%s: %s",
           pt_status_name(wanted), pt_error_last()->text);
    pt_error_clear();
}

/* Straight from the definition. */
static uint64_t digest_of_weights(void)
{
    uint64_t sum = 0, bits;
    uint32_t half;

    for (int64_t k = 0; k < 60; k++) {
        float x = (float)small_value(0, k);
        memcpy(&half, &x, 4);
        sum += pt_mix64(pt_mix64(pt_name_id("w") + (uint64_t)k) ^ half);
    }
    for (int64_t k = 0; k < 7; k++) {
        double x = small_value(1, k);
        memcpy(&bits, &x, 8);
        sum += pt_mix64(pt_mix64(pt_name_id("b") + (uint64_t)k) ^ bits);
    }
    return sum;
}

static void test_verbs(void)
{
    char digest[32];

    snprintf(digest, sizeof digest, "%016llx\n",
             (unsigned long long)digest_of_weights());
    tap_ok(inspect("a.h5", "--digest", NULL) == PT_OK && strcmp(out, digest) == 0,
           "--digest prints the digest of the definition");
    digest[16] = '\0';
    tap_ok(inspect("a.h5", NULL, NULL) == PT_OK && has("step           5\n") &&
               has("parameters     67\n") && has("tensor_bytes   536\n") && has(digest),
           "the summary");
    tap_ok(inspect("--tensors", "a.h5", NULL) == PT_OK && has("tensors: 3\n") &&
               has("  model/w  type fp32  shape 6x10  digest ") &&
               has("  optimizer/exp_avg/w  type fp32  shape 3x4x5  digest "),
           "--tensors");
    tap_ok(inspect("a.h5", "--config", NULL) == PT_OK &&
               strcmp(out, "[a]\nb = 1\n") == 0,
           "--config is the file's text");
    tap_ok(inspect("a.h5", "--verify", NULL) == PT_OK && has("damaged: 0\n") &&
               has("not_finite: 0\n") && has("intact         yes\n"),
           "--verify");
    tap_ok(inspect("a.h5", "--tensors", "--json") == PT_OK &&
               has("\"shape\": \"3x4x5\"") && out[0] == '{',
           "--json");
}

/* Whatever a foreign file says, the terminal is not told. */
static void test_foreign(void)
{
    static const char *const verbs[] = {"--config", "--diff"};

    for (int i = 0; i < 2; i++)
        tap_ok(inspect("evil.h5", verbs[i], i ? "a.h5" : NULL) == PT_OK &&
                   !strpbrk(out, "\x1b\a") && !strstr(out, "\xc2\x9b") &&
                   has("b = ?]0;x???2J"),
               "%s shows no control characters", verbs[i]);
    tap_ok(inspect("evil.h5", "--config", "--json") == PT_OK &&
               !strpbrk(out, "\x1b\a") && !strstr(out, "\xc2\x9b") &&
               has("\\u001B]0;x\\u0007"),
           "JSON has them in words");
}

static void test_usage(void)
{
    expect_error(inspect(NULL, NULL, NULL), PT_CONFIG, "needs one file");
    expect_error(inspect("a.h5", "b.h5", NULL), PT_CONFIG, "needs one file");
    expect_error(inspect("a.h5", "--diff", NULL), PT_CONFIG, "needs two files");
    expect_error(inspect("a.h5", "--frob", NULL), PT_CONFIG, "unknown flag --frob");
    expect_error(inspect("a.h5", "--verify", "--digest"), PT_CONFIG, "at a time");
    expect_error(inspect("none.h5", NULL, NULL), PT_IO, "none.h5: No such file");
}

static void test_damage(void)
{
    float number = (float)small_value(0, 30), *nothing = NULL;
    char bytes[TEXT_BYTES];
    FILE *file = fopen("a.h5", "rb");
    size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;

    if (file)
        fclose(file);
    for (size_t k = 0; k + 4 <= n && !nothing; k++)
        if (memcmp(bytes + k, &number, 4) == 0) {
            number = NAN;
            memcpy(bytes + k, &number, 4);
            nothing = &number;
        }
    file = fopen("damaged.h5", "wb");
    fwrite(bytes, 1, n, file);
    fclose(file);
    expect_error(inspect("damaged.h5", "--verify", NULL), PT_DAMAGED, "model/w");
    tap_ok(has("damaged: 1\n  model/w\n") &&
               has("not_finite: 1\n  model/w  elements 1\n"),
           "... and the NaN is counted");
    tap_ok(inspect("damaged.h5", NULL, NULL) == PT_OK, "the summary reads no elements");
    expect_error(inspect("a.h5", "--diff", "damaged.h5"), PT_NUMERIC,
                 "1 tensors differ");
    tap_ok(has("model/w  elements 1  max_abs not finite"), "a NaN is no distance");
}

static void test_diff(void)
{
    /* 13.25 + 2^-20: the next number in fp32. */
    tap_ok(inspect("a.h5", "--diff", "same.h5") == PT_OK &&
               has("equal          yes\n") && has("config_differences: 0\n"),
           "equal files");
    expect_error(inspect("a.h5", "--diff", "ulp.h5"), PT_NUMERIC, "1 tensors differ");
    tap_ok(has("  model/w  elements 1  max_abs 9.53674316e-07  max_ulp 1\n") &&
               has("tensors_that_differ: 1\n") && has("  - b = 1\n") &&
               has("  + b = 2\n") && has("header_differences: 1\n"),
           "one unit in the last place, and the configuration");
}

static void test_tools(void)
{
    double x[60];
    int wrong = 0;

    if (system("command -v h5dump >/dev/null && command -v h5ls >/dev/null") != 0) {
        tap_skip("no h5dump");
        return;
    }
    tap_ok(
        system("h5ls -r a.h5 | grep -q '^/optimizer/exp_avg/w *Dataset {3, 4, 5}'") == 0,
        "h5ls sees the tensors");
    tap_ok(system("h5dump -d /model/b -b NATIVE -o b.bin a.h5 >/dev/null") == 0,
           "h5dump reads them");
    FILE *file = fopen("b.bin", "rb");
    wrong = file == NULL || fread(x, 8, 7, file) != 7;
    for (int k = 0; k < 7 && !wrong; k++)
        wrong += x[k] != small_value(1, k);
    if (file)
        fclose(file);
    tap_ok(wrong == 0, "and finds what was written");
    tap_ok(system("h5dump -a /step a.h5 | grep -q '(0): 5'") == 0, "and the header");
}

int main(void)
{
    pt_engine_t *engine = small_engine();
    pt_comm_t *world = engine ? pt_engine_world(engine) : NULL;

    if (!engine || pt_transport_open_serial(&transport) != PT_OK)
        return 1;
    tap_ok(small_save(world, "a.h5", "[a]\nb = 1\n", 0) == PT_OK &&
               small_save(world, "same.h5", "[a]\nb = 1\n", 0) == PT_OK &&
               small_save(world, "ulp.h5", "[a]\nb = 2\n", 0x1p-20) == PT_OK &&
               small_save(world, "evil.h5",
                          "[a]\nb = \x1b]0;x\a\xc2\x9b"
                          "2J\n",
                          0) == PT_OK,
           "files to inspect");
    pt_engine_destroy(engine);
    test_verbs();
    test_foreign();
    test_usage();
    test_damage();
    test_diff();
    test_tools();
    return tap_done();
}
