/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted blends against the rule taken word by word, one sample after the other. */
#include "penta/base/alloc.h"
#include "regression/unit/corpus_files.h"

#include <math.h>

enum { FILES = 5, T = 4, PERIODS = 3, LEAST = 1000 };

typedef struct blend {
    const char *weights;
    int files;
    int64_t whole[FILES]; /* in the smallest whole numbers */
} blend_t;

static const blend_t blends[] = {
    {"0.7,0.3", 2, {7, 3}},
    {"3,7", 2, {3, 7}},
    {"1", 1, {1}},
    {"1,1,1", 3, {1, 1, 1}},
    {" 2 , 4.0,\t6", 3, {1, 2, 3}},
    {"0.123456,0.5,0.376544", 3, {3858, 15625, 11767}},
    {"10,1,1,1,0.5", 5, {20, 2, 2, 2, 1}},
    {"0.01,0.99", 2, {1, 99}},
    {"0.2,0.2,0.2,0.3,0.1", 5, {2, 2, 2, 3, 1}},
};

/* Samples of the files, and shares of training. */
static const int64_t samples[FILES] = {20, 7, 7, 31, 11};
static const int64_t train[FILES] = {14, 4, 4, 21, 7};

static void write_files(void)
{
    for (int f = 0; f < FILES; f++) {
        char name[2] = {(char)('a' + f), '\0'};
        bin.count = 0;
        for (int64_t i = 0; i < samples[f] * T + 1 + f % T; i++)
            put(&bin, (uint64_t)(f * 1000 + i), 2);
        write_bytes(name, bin.bytes, bin.count);
    }
}

static pt_corpus_t *open_blend(const char *weights, int count, bool shuffle)
{
    pt_corpus_t *corpus = NULL;
    static const char *const names[] = {"",      "a",       "a,b",
                                        "a,b,c", "a,b,c,d", "a,b,c,d,e"};

    set_config(names[count], PT_FORMAT_U16, T, false);
    config.data.shuffle = shuffle;
    snprintf(config.data.weights, sizeof config.data.weights, "%s", weights);
    if (pt_corpus_open(&config, VOCAB, true, &corpus) != PT_OK) {
        tap_ok(0, "%s", pt_error_last()->text);
        exit(1);
    }
    return corpus;
}

/* First token of a sample: 1000 times the file, and the place in it. */
static int64_t first_token(const pt_corpus_t *corpus, pt_split_t split, int64_t index)
{
    int32_t numbers[4][T];
    int64_t sample[T], valid;
    uint8_t mask[T];
    pt_sequence_t out = {numbers[0], numbers[1], numbers[2], numbers[3],
                         NULL,       sample,     mask};

    if (pt_corpus_fill(corpus, split, index, index, &out, &valid) != PT_OK)
        return -1;
    for (int t = 0; t < T; t++)
        if (numbers[0][t] != numbers[0][0] + t || numbers[1][t] != numbers[0][t] + 1)
            return -1;
    return numbers[0][0];
}

/* The file sample n comes from: the largest weight x max(n, 1) - used, the first of
 * equals, in fractions of the sum. */
static int file_by_rule(const blend_t *blend, int64_t sum, int64_t n,
                        const int64_t *used)
{
    int best = 0;

    for (int f = 1; f < blend->files; f++) {
        int64_t here = blend->whole[f] * (n > 1 ? n : 1) - used[f] * sum;
        int64_t there = blend->whole[best] * (n > 1 ? n : 1) - used[best] * sum;
        if (here > there)
            best = f;
    }
    return best;
}

/* Every sample in turn; in each epoch of a file every one of its samples once. */
static void test_rule(const blend_t *blend, bool shuffle)
{
    pt_corpus_t *corpus = open_blend(blend->weights, blend->files, shuffle);
    int64_t used[FILES] = {0}, sum = 0, wrong = 0, count;
    int64_t seen[FILES][32] = {{0}};

    for (int f = 0; f < blend->files; f++)
        sum += blend->whole[f];
    count = PERIODS * sum > LEAST ? PERIODS * sum : LEAST;
    for (int64_t n = 0; n < count; n++) {
        int64_t at =
            first_token(corpus, PT_SPLIT_TRAIN, pt_corpus_sample_of(corpus, n));
        int f = file_by_rule(blend, sum, n, used);
        int64_t place = at % 1000 / T, epoch = used[f]++ / train[f];
        wrong += at / 1000 != f || at % 1000 % T != 0 || place >= train[f];
        if (wrong > 0)
            break;
        wrong += seen[f][place]++ != epoch;
        wrong += !shuffle && place != (used[f] - 1) % train[f];
    }
    tap_ok(wrong == 0, "%lld samples of the blend %s%s", (long long)count,
           blend->weights, shuffle ? ", shuffled" : "");
    pt_corpus_close(corpus);
}

/* The rule in floating-point numbers, as others have it, where no rounding can
 * decide. */
static void test_doubles(void)
{
    pt_corpus_t *corpus = open_blend("0.5,0.25,0.25", 3, false);
    double weight[] = {0.5, 0.25, 0.25};
    int64_t used[3] = {0}, wrong = 0;

    for (int64_t n = 0; n < 10000; n++) {
        int64_t at =
            first_token(corpus, PT_SPLIT_TRAIN, pt_corpus_sample_of(corpus, n));
        int best = 0;
        for (int f = 1; f < 3; f++)
            if (weight[f] * fmax((double)n, 1) - (double)used[f] >
                weight[best] * fmax((double)n, 1) - (double)used[best])
                best = f;
        used[best]++;
        wrong += at / 1000 != best;
    }
    tap_ok(wrong == 0, "the rule in doubles, with exact weights");
    pt_corpus_close(corpus);
}

static void test_validation(void)
{
    pt_corpus_t *corpus = open_blend("0.9,0.05,0.05", 3, true);
    int64_t count = pt_corpus_samples(corpus, PT_SPLIT_VALIDATION), wrong = 0;
    uint8_t seen[3][32] = {{0}};
    int in_front[3] = {0};

    for (int64_t k = 0; k < count; k++) {
        int64_t at = first_token(corpus, PT_SPLIT_VALIDATION, k);
        int64_t f = at / 1000, place = at % 1000 / T;
        wrong += at < 0 || place < train[f] || place >= samples[f] || seen[f][place]++;
        in_front[f] += k < count * 3 / 4;
    }
    tap_ok(wrong == 0 && count == 12, "every file's last samples validate, each once");
    tap_ok(in_front[0] > 0 && in_front[1] > 0 && in_front[2] > 0,
           "the first few come from all files");
    tap_ok(pt_corpus_samples(corpus, PT_SPLIT_TRAIN) == 22 &&
               pt_corpus_tokens(corpus) == (20 + 7 + 7) * T + 3 + 3,
           "sums over the files");
    pt_corpus_close(corpus);
}

/* One file with a weight is the file. */
static void test_alone(void)
{
    pt_corpus_t *blend = open_blend("3", 1, true), *plain = open_blend("", 1, true);
    int64_t wrong = 0;

    for (int64_t id = 0; id < 500; id++)
        wrong += pt_corpus_sample_of(blend, id) != pt_corpus_sample_of(plain, id);
    tap_ok(wrong == 0, "a blend of one file");
    pt_corpus_close(plain);
    pt_corpus_close(blend);
}

/* Two files of one length in turn: each in an order of its own. */
static void test_orders(void)
{
    pt_corpus_t *corpus = NULL;
    int64_t same = 0;

    set_config("b,c", PT_FORMAT_U16, T, false);
    snprintf(config.data.weights, sizeof config.data.weights, "1,1");
    if (!tap_ok(pt_corpus_open(&config, VOCAB, true, &corpus) == PT_OK,
                "files of one length"))
        return;
    for (int64_t n = 0; n < 400; n += 2) {
        int64_t a = pt_corpus_sample_of(corpus, n),
                b = pt_corpus_sample_of(corpus, n + 1);
        same += a % train[1] == b % train[1];
    }
    tap_ok(same < 100, "%lld of 200 samples are at one place", (long long)same);
    pt_corpus_close(corpus);
}

/* Far ahead, without having been there: whole periods change the uses by the
 * weights. */
static void test_far(void)
{
    pt_corpus_t *corpus = open_blend("0.7,0.3", 2, false);
    int64_t far = INT64_C(1) << 50, base = far - far % 10, wrong = 0;

    for (int64_t r = 0; r < 10; r++) {
        int64_t here = pt_corpus_sample_of(corpus, base + r);
        int64_t there = pt_corpus_sample_of(corpus, 10 + r);
        int64_t weight = there < 14 ? 7 : 3, size = there < 14 ? 14 : 4;
        int64_t first = there < 14 ? 0 : 14, ahead = base / 10 - 1;
        wrong += here != first + (there - first + ahead % size * weight) % size;
    }
    tap_ok(wrong == 0, "sample 2^50 by arithmetic");
    pt_corpus_close(corpus);
}

static void refuses(const char *weights, const char *has)
{
    set_config("a,b", PT_FORMAT_U16, T, false);
    snprintf(config.data.weights, sizeof config.data.weights, "%s", weights);
    tap_ok(pt_config_weights(&config, 2, NULL) == PT_CONFIG &&
               strstr(pt_error_last()->text, has),
           "%s", pt_error_last()->text);
    pt_error_clear();
}

static void test_refused(void)
{
    static const char *const bad[] = {"x",    "0.5,",    "1,0",        ",1", "1,,1",
                                      "-1,2", "1e3,1",   "nan,1",      ".",  "1.,2",
                                      "1 2",  "1.5.1,1", "1.0000001,1"};
    int64_t whole[2];
    pt_corpus_t *corpus;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuses(bad[i], "must be above 0");
    refuses("1", "has 1 numbers, but data.path names 2 files");
    refuses("1,2,3", "has 3 numbers");
    refuses("0.999999,0.000002", "add up to 1000001");
    set_config("a,b", PT_FORMAT_U16, T, false);
    snprintf(config.data.weights, sizeof config.data.weights, "999999,1");
    tap_ok(pt_config_weights(&config, 2, whole) == PT_OK && whole[0] == 999999 &&
               whole[1] == 1,
           "the longest period");
    set_config("a,b", PT_FORMAT_U16, 20, false);
    snprintf(config.data.weights, sizeof config.data.weights, "1,1");
    tap_ok(pt_corpus_open(&config, VOCAB, true, &corpus) == PT_CONFIG && !corpus &&
               strstr(pt_error_last()->text, "b holds 30 tokens"),
           "%s", pt_error_last()->text);
    pt_error_clear();
}

int main(void)
{
    write_files();
    for (size_t i = 0; i < sizeof blends / sizeof blends[0]; i++)
        for (int shuffle = 0; shuffle < 2; shuffle++)
            test_rule(&blends[i], shuffle);
    test_doubles();
    test_validation();
    test_alone();
    test_orders();
    test_far();
    test_refused();
    tap_ok(pt_alloc_live_bytes() == 0, "everything is freed");
    return tap_done();
}
