/* TEST timeout=20 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/rng.h"
#include "penta/base/text.h"

#include <math.h>
#include <string.h>

static int equal(const char *got, const char *want)
{
    int ok = strcmp(got, want) == 0;

    if (!ok)
        tap_note("\"%s\" is not \"%s\"", got, want);
    return ok;
}

static void test_build(void)
{
    char buffer[8];
    pt_text_t text = pt_text_init(buffer, sizeof buffer);

    pt_text_add(&text, "%d", 12);
    pt_text_add(&text, "%s", "345");
    tap_ok(equal(buffer, "12345") && text.length == 5 && !text.truncated, "grows");
    pt_text_add(&text, "67");
    tap_ok(equal(buffer, "1234567") && !text.truncated, "fills");
    pt_text_add(&text, "8");
    tap_ok(equal(buffer, "1234567") && text.truncated && text.length == 7, "tells");
    pt_text_add(&text, "9");
    tap_ok(equal(buffer, "1234567") && text.truncated, "stays");
    text = pt_text_init(NULL, 0);
    pt_text_add(&text, "x");
    tap_ok(text.truncated && text.length == 0, "no room at all");
}

static void test_printable(void)
{
    char text[] = "a\x1b[2Jb\r\x7f\tc\n\xc3\xa4";

    pt_text_printable(text);
    tap_ok(equal(text, "a?[2Jb??\tc\n\xc3\xa4"), "nothing a terminal would obey");
    char wide[] = "\xc2\x9b"
                  "2J\x9b"
                  "2J\xe2\x80\xae"
                  "abc\xe2\x81\xa6\xe2\x82\xac\xf0\x9f\x98\x80\xff"
                  "\xc0\x9b\xed\xa0\x80\xc2";
    pt_text_printable(wide);
    tap_ok(equal(wide, "??2J?2J???abc???\xe2\x82\xac\xf0\x9f\x98\x80?"
                       "??"
                       "???"
                       "?"),
           "C1, direction, and no UTF-8: %s", wide);
}

static void test_units(void)
{
    char b[32];

#define BYTES(n, want) tap_ok(equal(pt_text_bytes(n, b, sizeof b), want), "%s", want)
    BYTES(0, "0 B");
    BYTES(1023, "1023 B");
    BYTES(1024, "1.00 KiB");
    BYTES(1342177280, "1.25 GiB");
    BYTES((1 << 20) - 1, "1.00 MiB");
    BYTES(-1536, "-1.50 KiB");
    BYTES(INT64_MAX, "8.00 EiB");
#define DURATION(sec, want)                                                            \
    tap_ok(equal(pt_text_duration(sec, b, sizeof b), want), "%s", want)
    DURATION(3723, "1h 02m 03s");
    DURATION(3599.7, "1h 00m 00s");
    DURATION(62.4, "1m 02s");
    DURATION(59.7, "1m 00s");
    DURATION(12.34, "12.3 s");
    DURATION(1, "1 s");
    DURATION(0.0123, "12.3 ms");
    DURATION(0.00005, "50 us");
    DURATION(0, "0 s");
    DURATION(90061, "1d 01h 01m");
    DURATION(NAN, "unknown");
    DURATION(INFINITY, "unknown");
#define COUNT(n, want) tap_ok(equal(pt_text_count(n, b, sizeof b), want), "%s", want)
    COUNT(8.03e9, "8.03 B");
    COUNT(124439808, "124.44 M");
    COUNT(999, "999");
    COUNT(1000, "1.00 K");
    COUNT(999999, "1.00 M");
    COUNT(1.5e13, "15.00 T");
}

/* Restricted Damerau–Levenshtein distance straight from its recurrence. */
static int slow(const char *a, int i, const char *b, int j)
{
    int best, other;

    if (i == 0 || j == 0)
        return i + j;
    best = slow(a, i - 1, b, j - 1) + (a[i - 1] != b[j - 1]);
    if ((other = slow(a, i - 1, b, j) + 1) < best)
        best = other;
    if ((other = slow(a, i, b, j - 1) + 1) < best)
        best = other;
    if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
        (other = slow(a, i - 2, b, j - 2) + 1) < best)
        best = other;
    return best;
}

static void test_distance(void)
{
    char a[6], b[6], x[400], y[400];
    int good = 1;

    tap_ok(pt_text_distance("", "") == 0 && pt_text_distance("abc", "abc") == 0,
           "equal");
    tap_ok(pt_text_distance("hiden", "hidden") == 1, "a letter left out");
    tap_ok(pt_text_distance("hidedn", "hidden") == 1, "two letters swapped");
    tap_ok(pt_text_distance("kitten", "sitting") == 3, "kitten, sitting");
    tap_ok(pt_text_distance("", "abcd") == 4, "from nothing");
    tap_ok(pt_text_is_near("lr", 1) && !pt_text_is_near("lr", 2),
           "a slip in two letters");
    tap_ok(pt_text_is_near("global_batch", 4) && !pt_text_is_near("global_batch", 5),
           "four in twelve");
    for (uint64_t trial = 0; trial < 2000; trial++) {
        uint64_t bits = pt_mix64(trial);
        int m = (int)(bits % 6), n = (int)(bits / 6 % 6);
        for (int i = 0; i < 5; i++) {
            a[i] = (char)('a' + (bits >> (10 + i)) % 2);
            b[i] = (char)('a' + (bits >> (20 + 2 * i)) % 3);
        }
        a[m] = b[n] = '\0';
        good = good && pt_text_distance(a, b) == slow(a, m, b, n);
    }
    tap_ok(good, "as the recurrence says, for short texts");
    memset(x, 'x', sizeof x);
    memset(y, 'y', sizeof y);
    x[399] = y[399] = '\0';
    tap_ok(pt_text_distance(x, y) == 99, "capped");
    x[120] = y[120] = '\0';
    tap_ok(pt_text_distance(x, y) == 99, "capped when it could be computed");
    memset(y, 'x', 120);
    y[60] = 'y';
    tap_ok(pt_text_distance(x, y) == 1, "long, but near");
}

static const struct {
    const char *text;
    int64_t value;
} integers[] = {{"0", 0},
                {"-0", 0},
                {"42", 42},
                {"+7", 7},
                {"-17", -17},
                {"007", 7},
                {"1e6", 1000000},
                {"1E6", 1000000},
                {"1.5e3", 1500},
                {"1.50e1", 15},
                {"2500e-2", 25},
                {"1e+2", 100},
                {"0e99", 0},
                {"2^20", 1048576},
                {"-2^3", -8},
                {"2^0", 1},
                {"0^0", 1},
                {"1^9999999", 1},
                {"-2^63", INT64_MIN},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"9.223372036854775807e18", INT64_MAX}};

static const char *const not_integers[] = {"",
                                           " 1",
                                           "1 ",
                                           "1x",
                                           "x",
                                           "-",
                                           "+",
                                           "--1",
                                           "1e",
                                           "e6",
                                           "1e-1",
                                           "1.5",
                                           "1.5e0",
                                           "1.",
                                           "1.e3",
                                           "0x10",
                                           "2^",
                                           "2^64",
                                           "2^63",
                                           "^2",
                                           "2^-1",
                                           "2^2^2",
                                           "1e19",
                                           "9223372036854775808",
                                           "-9223372036854775809",
                                           "1e99999999999999999999",
                                           "1,000",
                                           "nan",
                                           "inf"};

static void test_int(void)
{
    int64_t value;

    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        tap_ok(pt_text_int(integers[i].text, &value) && value == integers[i].value,
               "%s is an integer", integers[i].text);
    for (size_t i = 0; i < sizeof not_integers / sizeof *not_integers; i++) {
        value = 5;
        tap_ok(!pt_text_int(not_integers[i], &value) && value == 5, "\"%s\" is none",
               not_integers[i]);
    }
}

static void test_double(void)
{
    static const char *const bad[] = {"",    " 1",   "1 ",    "1x",     "nan",
                                      "inf", "-inf", "1e999", "-1e999", "."};
    double value;

    tap_ok(pt_text_double("3e-4", &value) && value == 3e-4, "3e-4");
    tap_ok(pt_text_double("-.5", &value) && value == -0.5, "-.5");
    tap_ok(pt_text_double("1e-310", &value) && value == 1e-310, "a subnormal");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        value = 5;
        tap_ok(!pt_text_double(bad[i], &value) && value == 5, "\"%s\" is none", bad[i]);
    }
}

/* RFC 3629: wrong lead bytes, lone continuations, overlong forms, surrogates, beyond
 * U+10FFFF, cut short. */
static void test_utf8(void)
{
#define NO "\xef\xbf\xbd"
    static const char *const cases[][2] = {
        {"", ""},
        {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
         "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"caf\xe9.txt", "caf" NO ".txt"},
        {"\x80z\xff", NO "z" NO},
        {"\xc0\xaf", NO NO},
        {"\xed\xa0\x80", NO NO NO},
        {"\xf4\x90\x80\x80", NO NO NO NO},
        {"x\xe2\x82", "x" NO NO},
    };
    char out[64];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = pt_text_utf8(cases[i][0], strlen(cases[i][0]), out);
        tap_ok(length == strlen(cases[i][1]) && strcmp(out, cases[i][1]) == 0,
               "bytes that are UTF-8 and not, case %zu", i);
    }
}

int main(void)
{
    test_utf8();
    test_build();
    test_printable();
    test_units();
    test_distance();
    test_int();
    test_double();
    return tap_done();
}
