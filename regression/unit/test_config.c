/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The option table, its parser and its printer. */
#include "penta/base/alloc.h"
#include "penta/comm/comm.h"
#include "penta/config/config.h"
#include "penta/io/checkpoint.h"
#include "regression/tap.h"

#include <string.h>

enum { BIG = 4 * PT_CONFIG_TEXT };

static pt_config_t a, b;

static bool same_values(const pt_config_t *x, const pt_config_t *y)
{
    /* Values come before the origins, and fields are cleared before they are set. */
    return memcmp(x, y, offsetof(pt_config_t, origin)) == 0;
}

static pt_status_t check_resume_from(const pt_config_t *config, const char *ini)
{
    pt_resume_point_t point = {
        .path = "x.h5", .updates = 1, .decay_steps = config->train.steps};

    return pt_config_check_resume(config, ini, &point);
}

static void check_rows(void)
{
    static char text[BIG], again[BIG], word[64];
    int bad_help = 0, bad_bounds = 0, bad_default = 0, bad_find = 0;

    pt_config_defaults(&a);
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option(i);

        pt_config_value(&a, i, text, sizeof text);
        bad_default +=
            strcmp(a.origin[i], "default") != 0 || a.source[i] != PT_SOURCE_DEFAULT;
        if (row->type == PT_TYPE_CHOICE || row->type == PT_TYPE_TEXT ||
            row->type == PT_TYPE_VALUE || row->type == PT_TYPE_INT)
            bad_default += strcmp(text, row->default_text) != 0;
        bad_help += strlen(row->help) < 4 || strlen(row->help) > 200;
        bad_help +=
            (row->type == PT_TYPE_TEXT || row->type == PT_TYPE_VALUE) && !*row->unit;
        bad_bounds += row->type == PT_TYPE_INT && row->int_min >= row->int_max;
        bad_bounds += row->type == PT_TYPE_REAL && row->real_min >= row->real_max;
        bad_bounds += row->type == PT_TYPE_CHOICE && !row->choices;
        bad_bounds += (row->type == PT_TYPE_VALUE) != (row->syntax != NULL);
        bad_find += pt_option_find(row->section, row->key) != row;
        bad_find += !pt_section_help(row->section);
        snprintf(word, sizeof word, "%s.%s", row->section, row->key);
        pt_config_set(&a, word, text, "test");
        pt_config_value(&a, i, again, sizeof again);
        bad_default += strcmp(text, again) != 0;
    }
    tap_ok(bad_default == 0, "every default is a value of its row");
    tap_ok(bad_help == 0, "every row has help, texts have a syntax");
    tap_ok(bad_bounds == 0, "every row has bounds or choices");
    tap_ok(bad_find == 0, "every row is found by name");
}

/* A value that is not the default: bounds, last choice, and texts that need every
 * escape. */
static void awkward(const pt_option_t *row, int variant, char *out, size_t size)
{
    static const char *const texts[] = {"a b", "\"x\\x3b \\\"q\\\" \\\\ \\n\\t\"",
                                        "# no comment", "\\n\\n", "\xff\xc3\xa4"};
    int count = 1;

    switch (row->type) {
    case PT_TYPE_INT:
        snprintf(out, size, "%lld",
                 (long long)(variant % 2 ? row->int_min : row->int_max));
        break;
    case PT_TYPE_REAL:
        snprintf(out, size, "%.17g", variant % 2 ? row->real_min : row->real_max / 3);
        break;
    case PT_TYPE_BOOL: snprintf(out, size, variant % 2 ? "yes" : "no"); break;
    case PT_TYPE_CHOICE:
        for (const char *c = row->choices; *c; c++)
            count += *c == '|';
        snprintf(out, size, "%.*s", (int)strcspn(row->choices, "|"), row->choices);
        if (variant % 2 && count > 1)
            snprintf(out, size, "%s", strrchr(row->choices, '|') + 1);
        break;
    case PT_TYPE_VALUE: snprintf(out, size, "%s", row->default_text); break;
    case PT_TYPE_TEXT: snprintf(out, size, "%s", texts[variant % 5]); break;
    }
}

/* set -> print one value -> set gives the same bits. */
static void check_values(void)
{
    static char text[BIG], name[96];
    int failed = 0, different = 0;

    for (int variant = 0; variant < 5; variant++) {
        pt_config_defaults(&a);
        pt_config_defaults(&b);
        for (int i = 0; i < PT_OPTION_COUNT; i++) {
            const pt_option_t *row = pt_option(i);

            snprintf(name, sizeof name, "%s.%s", row->section, row->key);
            awkward(row, variant, text, sizeof text);
            failed += pt_config_set(&a, name, text, "test") != PT_OK;
            pt_config_value(&a, i, text, sizeof text);
            failed += pt_config_set(&b, name, text, "test") != PT_OK;
        }
        different += !same_values(&a, &b);
    }
    tap_ok(failed == 0, "awkward values are taken");
    tap_ok(different == 0, "a printed value parses to the same bits");
}

static void check_long(void)
{
    static char text[BIG], *ini;

    memset(text, 0, sizeof text);
    for (int i = 0; i < 4000; i++) /* every byte but NUL */
        text[i] = (char)(1 + i * 7 % 255);
    memcpy(text, "a ; b", 5); /* a comment, for inih */
    pt_config_defaults(&a);
    pt_config_finish(&a);
    memcpy(a.sample.prompt, text, 4001);
    memset(text, 'p', 4000);
    memcpy(a.data.path, text, 4001);
    tap_ok(pt_config_to_ini(&a, &ini) == PT_OK && pt_config_parse(ini, &b) == PT_OK &&
               same_values(&a, &b),
           "texts of 4000 bytes of any kind survive an INI file: %s",
           pt_error_last()->text);
    pt_error_clear();
    pt_free(ini);
}

static void check_identity(void)
{
    static const char *const presets[] = {"tiny",       "gpt2-124m",   "llama3-8b",
                                          "llama3-70b", "llama3-405b", "qwen3-8b"};
    char *ini, *again;

    for (int i = 0; i < 6; i++) {
        pt_config_defaults(&a);
        pt_config_set(&a, "model.preset", presets[i], "test");
        pt_config_set(&a, "train.lr", "0.1", "test");
        pt_config_set(&a, "train.eps", "1.2345678901234567e-8", "test");
        tap_ok(pt_config_finish(&a) == PT_OK && pt_config_to_ini(&a, &ini) == PT_OK &&
                   pt_config_parse(ini, &b) == PT_OK && same_values(&a, &b),
               "%s: parse, print, parse is the identity: %s", presets[i],
               pt_error_last()->text);
        tap_ok(check_resume_from(&a, ini) == PT_OK, "%s: resumes from itself",
               presets[i]);
        pt_config_to_ini(&b, &again);
        tap_ok(strstr(ini, "lr = 0.1 ; test\n") &&
                   strstr(again, "lr = 0.1 ; configuration:"),
               "%s: origins are shown", presets[i]);
        pt_error_clear();
        pt_free(ini);
        pt_free(again);
    }
}

static void check_enums(void)
{
    static const struct {
        const char *key, *word;
        int value;
    } cases[] = {
        {"model.qk_norm", "yes", PT_CHOOSE_YES},
        {"model.tied", "no", PT_CHOOSE_NO},
        {"model.tied", "preset", PT_CHOOSE_PRESET},
        {"model.norm", "layer", PT_CHOOSE_LAYER},
        {"model.norm", "rms", PT_CHOOSE_RMS},
        {"model.activation", "gelu", PT_CHOOSE_GELU},
        {"model.activation", "swiglu", PT_CHOOSE_SWIGLU},
        {"model.positions", "learned", PT_CHOOSE_LEARNED},
        {"model.positions", "rotary", PT_CHOOSE_ROTARY},
        {"model.bias", "none", PT_CHOOSE_BIAS_NONE},
        {"model.bias", "qkv", PT_CHOOSE_BIAS_QKV},
        {"model.bias", "all", PT_CHOOSE_BIAS_ALL},
        {"train.precision", "fp64", PT_PRECISION_FP64},
        {"train.precision", "fp32", PT_PRECISION_FP32},
        {"train.precision", "bf16", PT_PRECISION_BF16},
        {"train.precision", "fp16", PT_PRECISION_FP16},
        {"train.grad_dtype", "auto", PT_NARROW_AUTO},
        {"train.moments_dtype", "fp32", PT_NARROW_FP32},
        {"parallel.reduce_dtype", "bf16", PT_NARROW_BF16},
        {"train.decay", "cosine", PT_DECAY_COSINE},
        {"train.decay", "linear", PT_DECAY_LINEAR},
        {"train.decay", "constant", PT_DECAY_CONSTANT},
        {"train.decay", "wsd", PT_DECAY_WSD},
        {"checkpoint.verify", "none", PT_VERIFY_NONE},
        {"checkpoint.verify", "digest", PT_VERIFY_DIGEST},
        {"checkpoint.verify", "full", PT_VERIFY_FULL},
        {"run.device", "auto", PT_DEVICE_AUTO},
        {"run.device", "cpu", PT_DEVICE_CPU},
        {"run.device", "cuda", PT_DEVICE_CUDA},
        {"run.device", "shadow", PT_DEVICE_SHADOW},
        {"comm.gpu_direct", "auto", PT_GPU_DIRECT_AUTO},
        {"comm.gpu_direct", "on", PT_GPU_DIRECT_ON},
        {"comm.gpu_direct", "off", PT_GPU_DIRECT_OFF},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char section[32], *dot = strchr(cases[i].key, '.');
        const pt_option_t *row;

        snprintf(section, sizeof section, "%.*s", (int)(dot - cases[i].key),
                 cases[i].key);
        row = pt_option_find(section, dot + 1);
        pt_config_defaults(&a);
        pt_config_set(&a, cases[i].key, cases[i].word, "test");
        tap_ok(*(int *)((char *)&a + row->offset) == cases[i].value,
               "%s=%s has its enumerator", cases[i].key, cases[i].word);
    }
}

static void check_derived(void)
{
    pt_config_defaults(&a);
    pt_config_set(&a, "model.hidden", "64", "test");
    pt_config_set(&a, "train.steps", "2^20", "test");
    tap_ok(pt_config_finish(&a) == PT_OK && a.model.head_dim == 8 &&
               a.model.layers == 8 && a.model.ffn == 256 && a.train.steps == 1048576,
           "a key overrides the preset; head_dim follows hidden and heads");
    pt_config_defaults(&a);
    pt_config_set(&a, "train.steps", "5", "test");
    pt_config_set(&a, "train.lr", "1e-5", "test");
    tap_ok(pt_config_finish(&a) == PT_OK && a.train.warmup == 5 &&
               a.train.min_lr == 1e-5 &&
               a.source[PT_OPTION_train_warmup] == PT_SOURCE_DERIVED &&
               a.source[PT_OPTION_train_lr] == PT_SOURCE_GIVEN &&
               a.source[PT_OPTION_model_layers] == PT_SOURCE_GIVEN,
           "defaults of warmup and min_lr follow what was given: %s",
           pt_error_last()->text);
}

static void check_resume(void)
{
    char *ini;
    const char *text;

    pt_config_defaults(&a);
    pt_config_finish(&a);
    pt_config_to_ini(&a, &ini);
    b = a;
    pt_config_set(&b, "train.lr", "0.5", "test");
    pt_config_set(&b, "run.dir", "elsewhere", "test");
    pt_config_set(&b, "data.path", "moved.txt", "test");
    tap_ok(check_resume_from(&b, ini) == PT_OK, "free options may change");
    pt_config_set(&b, "train.seed", "7", "x.ini:3");
    pt_config_set(&b, "model.layers", "9", "command line");
    pt_config_set(&b, "data.split", "0.5,0.5", "command line");
    tap_ok(check_resume_from(&b, ini) == PT_CONFIG, "fixed options may not");
    text = pt_error_last()->text;
    tap_ok(strstr(text, "train.seed: now 7 (x.ini:3), checkpoint 1") &&
               strstr(text, "model.layers: now 9 (command line), checkpoint 8") &&
               strstr(text, "data.split: now 0.5,0.5"),
           "all that differ are listed (%zu bytes)", strlen(text));
    pt_error_clear();
    tap_ok(check_resume_from(&a, "[model]\nexperts = 4\n") == PT_CONFIG &&
               strstr(pt_error_last()->text, "model.experts = 4"),
           "options of another version are named");
    pt_error_clear();
    pt_free(ini);
}

/* What is spelt in another way is the same. */
static void check_meaning(void)
{
    static const char *const same[][3] = {
        {"data.split", "0.95,0.05", ".95,.05"},
        {"data.split", "0.95,0.05", "95e-2, 5e-2"},
        {"data.weights", "", "1"},
        {"data.weights", "5", "1"},
        {"data.weights", "7,3", "0.7,0.3"},
        {"data.weights", "7,3", " 14 , 6"},
        {"train.grad_dtype", "auto", "fp32"},
        {"train.moments_dtype", "fp32", "auto"},
        {"data.separator", "\\n", "\"\\n\""},
        {"data.separator", "<\\x41>", "<A>"},
        {"model.norm_eps", "1e-5", "0.00001"},
        {"data.shuffle", "yes", "1"},
        {"train.seed", "1000", "1e3"},
    };
    static const char *const different[][3] = {
        {"data.split", "0.95,0.05", "0.9,0.05"}, {"data.weights", "7,3", "3,7"},
        {"data.weights", "7,3", "7,3,1"},        {"data.weights", "", "7,3"},
        {"train.grad_dtype", "auto", "bf16"},    {"data.separator", "\\n", "n"},
        {"data.separator", "", "\\n"},           {"train.precision", "fp32", "bf16"},
    };
    size_t count = sizeof same / sizeof same[0],
           all = count + sizeof different / sizeof different[0];

    for (size_t i = 0; i < all; i++) {
        const char *const *row = i < count ? same[i] : different[i - count];
        char *ini;
        bool resumes;

        pt_error_clear();
        pt_config_defaults(&a);
        pt_config_finish(&a);
        b = a;
        tap_ok(pt_config_set(&a, row[0], row[1], "test") == PT_OK &&
                   pt_config_set(&b, row[0], row[2], "test") == PT_OK,
               "%s: both are values", row[0]);
        pt_config_to_ini(&a, &ini);
        resumes = check_resume_from(&b, ini) == PT_OK;
        tap_ok(resumes == (i < count), "%s: %s and %s are %s", row[0], row[1], row[2],
               i < count ? "the same" : "not");
        pt_free(ini);
    }
    pt_error_clear();
}

/* The schedule of wsd may move while the rate is at its peak, before and after; others
 * may not. */
static void check_schedule_moves(void)
{
    static const struct {
        const char *decay, *then_decay, *then, *now_decay, *now_steps;
        int64_t updates, wanted; /* -1: refused */
    } cases[] = {
        {"wsd", "wsd", "0", "0", "30", 10, 30},
        {"wsd", "wsd", "0", "0", "40", 10, 40},
        {"wsd", "wsd", "0", "40", "40", 10, 40},
        {"wsd", "wsd", "30", "40", "40", 25, 40},
        {"wsd", "wsd", "30", "40", "40", 26, -1},
        {"wsd", "wsd", "30", "20", "20", 15, 20},
        {"wsd", "wsd", "30", "20", "20", 16, -1},
        {"wsd", "wsd", "0", "0", "40", 26, 30},
        {"wsd", "wsd", "30", "0", "40", 10, 30},
        {"wsd", "wsd", "0", "0", "20", 10, 30},
        {"cosine", "cosine", "30", "40", "40", 1, -1},
        {"cosine", "cosine", "0", "0", "40", 1, 30},
        {"cosine", "cosine", "0", "30", "30", 1, 30},
        {"wsd", "cosine", "30", "40", "40", 1, -1},
        {"constant", "constant", "30", "40", "40", 20, 40},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pt_resume_point_t point = {
            .path = "x.h5", .updates = cases[i].updates, .decay_steps = 30};
        pt_status_t status;
        char *ini;

        pt_config_defaults(&a);
        pt_config_finish(&a);
        pt_config_set(&a, "train.wsd_decay", "5", "test");
        pt_config_set(&a, "train.steps", "30", "test");
        pt_config_set(&a, "train.decay", cases[i].then_decay, "test");
        pt_config_set(&a, "train.decay_steps", cases[i].then, "test");
        pt_config_to_ini(&a, &ini);
        pt_config_set(&a, "train.decay", cases[i].decay, "test");
        pt_config_set(&a, "train.decay_steps", cases[i].now_decay, "test");
        pt_config_set(&a, "train.steps", cases[i].now_steps, "test");
        pt_error_clear();
        status = pt_config_check_resume(&a, ini, &point);
        tap_ok(cases[i].wanted < 0
                   ? status == PT_CONFIG &&
                         strstr(pt_error_last()->text, "train.decay_steps: now")
                   : status == PT_OK && point.decay_steps == cases[i].wanted,
               "schedule, case %zu: %lld %s", i, (long long)point.decay_steps,
               pt_error_last()->text);
        pt_free(ini);
    }
    pt_error_clear();
}

/* What an archive leaves unsaid does not hide what it says. */
static void check_model_of(void)
{
    static const char most[] = "[model]\nlayers = 8\nhidden = 96\nheads = 8\n";

    pt_config_defaults(&a);
    pt_config_finish(&a);
    pt_error_clear();
    tap_ok(pt_config_check_model(&a, most, "x.h5") == PT_OK, "what is said agrees: %s",
           pt_error_last()->text);
    tap_ok(pt_config_check_model(&a, "[model]\nheads = 4\nkv_heads = 4\n", "x.h5") ==
                   PT_CONFIG &&
               strstr(pt_error_last()->text, "model.heads: now 8"),
           "heads differ in an archive without the rest: %s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(pt_config_check_model(&a, "[model\n", "dir/x.h5") == PT_CONFIG &&
               strstr(pt_error_last()->text, "dir/x.h5: /config:1"),
           "a damaged archive is named: %s", pt_error_last()->text);
    pt_error_clear();
}

static char *read_file(const char *path)
{
    static char text[1 << 17];
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;

    text[length] = '\0';
    if (file)
        fclose(file);
    return text;
}

static void count_line(void *sink, const char *line)
{
    int *counts = sink;

    counts[0]++;
    counts[1] += strlen(line) > 120;
    counts[2] += strstr(line, "train.steps=100") != NULL;
    counts[3] += strstr(line, "data.path") != NULL;
}

static void check_texts(void)
{
    const char *root = getenv("PENTA_SRCDIR") ? getenv("PENTA_SRCDIR") : ".";
    char path[1024], *text;
    int counts[4] = {0}, longest = 0, missing = 0;

    snprintf(path, sizeof path, "%s/jobs/conf/template.ini", root);
    tap_ok(pt_config_template(&text) == PT_OK && strcmp(text, read_file(path)) == 0,
           "jobs/conf/template.ini is what the table gives");
    tap_ok(pt_config_parse(text, &a) == PT_OK, "the template parses: %s",
           pt_error_last()->text);
    for (char *c = text; *c; c++) /* every option set to its default */
        if (*c == '\n' && c[1] == '#' && c[2] != ' ')
            memmove(c + 1, c + 2, strlen(c + 1));
    for (char *c = text, *end; (end = strchr(c, '\n')); c = end + 1)
        longest = end - c > longest ? (int)(end - c) : longest;
    tap_ok(pt_config_parse(text, &b) == PT_OK && same_values(&a, &b) && longest <= 197,
           "uncommented, it gives the defaults: %s", pt_error_last()->text);
    pt_error_clear();
    pt_free(text);
    snprintf(path, sizeof path, "%s/jobs/conf/tiny.ini", root);
    tap_ok(pt_config_parse(read_file(path), &a) == PT_OK,
           "jobs/conf/tiny.ini is right: %s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(pt_config_man(&text) == PT_OK, "man page");
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        snprintf(path, sizeof path, ".B %s.%s\n", pt_option(i)->section,
                 pt_option(i)->key);
        missing += strstr(text, path) == NULL;
    }
    tap_ok(missing == 0 && strstr(text, ".B 75\n"),
           "it has every option and exit status");
    pt_free(text);
    pt_config_help("model,train", count_line, counts);
    tap_ok(counts[0] > 60 && counts[1] == 0 && counts[2] == 1 && counts[3] == 0,
           "help has the sections asked for, in short lines (%d, %d)", counts[0],
           counts[1]);
}

int main(void)
{
    check_rows();
    check_values();
    check_long();
    check_identity();
    check_enums();
    check_derived();
    check_resume();
    check_meaning();
    check_schedule_moves();
    check_model_of();
    check_texts();
    return tap_done();
}
