/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Corpora of data.validation: all of each is validated on, whatever the split, weights
 * and masks of what is trained on. */
#include "penta/base/alloc.h"
#include "regression/unit/corpus_reference.h"

/* A file of bytes and its mask; in the reference alone. */
static void make_text(const char *name, int64_t count)
{
    static uint8_t bytes[ROOM], mask[ROOM];
    char path[16];

    expect_nothing();
    reference.documents = 1;
    for (int64_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)draw(256);
        mask[i] = (uint8_t)draw(2);
        expect_token(bytes[i]);
        reference.masked[i] = !mask[i];
    }
    write_bytes(name, bytes, count);
    snprintf(path, sizeof path, "%s.mask", name);
    write_bytes(path, mask, count);
}

static void set_validation(const char *list, const char *masks, int64_t sequence)
{
    set_config("train,more", PT_FORMAT_TEXT, sequence, false);
    snprintf(config.data.weights, sizeof config.data.weights, "1,2");
    snprintf(config.data.mask, sizeof config.data.mask, "-,more.mask");
    snprintf(config.data.validation, sizeof config.data.validation, "%s", list);
    snprintf(config.data.validation_mask, sizeof config.data.validation_mask, "%s",
             masks);
}

static void test_samples(void)
{
    int64_t wrong = 0;
    pt_validation_t *list;
    int count;

    make_text("one", 100);
    for (int64_t T = 1; T < 100; T += 7) {
        set_validation(" first=one,second = train, third=one", "one.mask,-,one.mask", T);
        if (pt_validation_open(&config, 256, true, &list, &count) != PT_OK ||
            count != 3) {
            tap_ok(0, "%s", pt_error_last()->text);
            return;
        }
        for (int i = 0; i < count; i += 2) {
            const pt_corpus_t *corpus = list[i].corpus;
            wrong += pt_corpus_samples(corpus, PT_SPLIT_TRAIN) != 0;
            wrong += pt_corpus_samples(corpus, PT_SPLIT_VALIDATION) != 99 / T;
            for (int64_t k = 0; k < 99 / T; k++)
                wrong += check_sample(corpus, PT_SPLIT_VALIDATION, k, k * T);
        }
        pt_validation_close(list, count);
    }
    tap_ok(wrong == 0, "all samples, in the order of the file, with its mask");
}

static void test_names(void)
{
    pt_validation_t *list;
    int count;

    set_validation("wiki=one,code-2.x=train", "", 9);
    if (!tap_ok(pt_validation_open(&config, 256, true, &list, &count) == PT_OK &&
                    count == 2,
                "two corpora"))
        return;
    tap_ok(strcmp(list[0].name, "wiki") == 0 && strcmp(list[1].name, "code-2.x") == 0,
           "their names");
    tap_ok(pt_corpus_tokens(list[0].corpus) == 100, "and files");
    pt_validation_close(list, count);
    set_validation("", "", 9);
    tap_ok(pt_validation_open(&config, 256, true, &list, &count) == PT_OK &&
               count == 0 && list == NULL,
           "none");
    pt_validation_close(list, count);
}

static void fails(const char *files, const char *masks, int64_t sequence,
                  const char *has)
{
    pt_validation_t *list;
    int count;
    int64_t before = pt_alloc_live_bytes();
    pt_status_t status;

    set_validation(files, masks, sequence);
    status = pt_validation_open(&config, 256, true, &list, &count);
    tap_ok(status == PT_CONFIG && !list && count == 0 &&
               strstr(pt_error_last()->text, has) && pt_alloc_live_bytes() == before,
           "%.200s", pt_error_last()->text);
    pt_error_clear();
}

int main(void)
{
    make_text("train", 300);
    make_text("more", 300);
    test_samples();
    test_names();
    fails("a=one,b=absent", "", 9, "data.validation (default): no file absent");
    fails("a=one,b=one", "-,train.mask", 9, "train.mask has 300 bytes, but one has 100");
    fails("a=train,b=one", "", 100,
          "data.validation (default): one holds 100 tokens, but train.sequence=100 "
          "needs 101");
    tap_ok(pt_alloc_live_bytes() == 0, "everything is freed");
    return tap_done();
}
