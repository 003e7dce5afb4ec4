/* SPDX-License-Identifier: Apache-2.0 */
/* Text files cut into documents. The input: a byte that says how far before the end of
 * a block of the search the text begins (up to NEAR: at the beginning of the file,
 * which costs least and teaches most), data.separator up to a new line, the text. The
 * documents found are those that a search byte by byte finds. A text of an odd number
 * of bytes is its own loss mask too. */
#include "regression/fuzz/fuzz.h"
#include "src/data/private.h"

enum { BLOCK = 1 << 20, LONGEST = 4096, NEAR = 191 };

/* An independent reading of the escapes; -1: refused. */
static int decode(const char *text, uint8_t *out)
{
    int length = 0;
    unsigned byte;

    for (; *text; text++) {
        if (*text != '\\') {
            out[length++] = (uint8_t)*text;
            continue;
        }
        text++;
        if (*text == 'x' && strspn(text + 1, "0123456789abcdefABCDEF") >= 2 &&
            sscanf(text + 1, "%2x", &byte) == 1) {
            out[length++] = (uint8_t)byte;
            text += 2;
        } else if (*text == 'n' || *text == 't' || *text == '\\') {
            out[length++] = *text == 'n' ? '\n' : *text == 't' ? '\t' : '\\';
        } else {
            return -1;
        }
    }
    return length;
}

static void check_documents(const pt_corpus_t *corpus, const uint8_t *data,
                            int64_t size, const uint8_t *separator, int length)
{
    const uint8_t *next;
    int64_t found = 1;

    FUZZ_CHECK(corpus->document[0] == 0, "the first begins at %lld",
               (long long)corpus->document[0]);
    for (int64_t i = 0; length > 0 && i + length < size;) {
        next = memchr(data + i, separator[0], (size_t)(size - length - i));
        if (!next)
            break;
        i = next - data;
        if (memcmp(next, separator, (size_t)length) != 0) {
            i++;
            continue;
        }
        i += length;
        FUZZ_CHECK(found < corpus->documents && corpus->document[found] == i,
                   "document %lld does not begin at %lld", (long long)found,
                   (long long)i);
        found++;
    }
    FUZZ_CHECK(found == corpus->documents, "%lld documents, not %lld",
               (long long)corpus->documents, (long long)found);
}

/* Every sample can be read, unless its mask is none, and its labels end with their
 * documents. */
static void check_samples(const pt_corpus_t *corpus, const uint8_t *data)
{
    int32_t token[4], label[4], place[4], position[4], document[4];
    int64_t sample[4], valid;
    uint8_t mask[4];
    pt_sequence_t out = {token, label, place, position, document, sample, mask};
    int64_t samples = corpus->samples[PT_SPLIT_TRAIN];

    for (int64_t i = samples > 100 ? samples - 100 : 0; i < samples; i++) {
        pt_status_t status = pt_corpus_fill(corpus, PT_SPLIT_TRAIN, i, i, &out, &valid);
        const uint8_t *text = data + 4 * i + 1;
        bool good = true;
        for (int t = 0; corpus->mask_count && t < 4; t++)
            good = good && text[t] <= 1;
        fuzz_refusal(status, PT_CONFIG, PT_CONFIG);
        FUZZ_CHECK((status == PT_OK) == good, "%s", pt_error_last()->text);
        if (!good)
            continue;
        for (int t = 0; corpus->mask_count && t < 4; t++)
            FUZZ_CHECK(mask[t] <= text[t], "label %d counts", t);
        FUZZ_CHECK(valid == mask[0] + mask[1] + mask[2] + mask[3], "%lld valid",
                   (long long)valid);
    }
}

static void open_corpus(const char *separator, const uint8_t *data, size_t size)
{
    static pt_config_t config;
    static uint8_t decoded[LONGEST];
    pt_corpus_t *corpus;
    int length = decode(separator, decoded);
    int fd;

    pt_config_defaults(&config);
    fd = fuzz_file(data, size, config.data.path);
    snprintf(config.data.separator, sizeof config.data.separator, "%s", separator);
    config.data.split = (pt_value_split_t){1, 0};
    snprintf(config.data.mask, sizeof config.data.mask, "%s",
             size % 2 ? config.data.path : "");
    config.data.document_mask = true;
    config.train.sequence = 4;
    pt_status_t status = pt_corpus_open(&config, 256, true, &corpus);
    fuzz_refusal(status, PT_CONFIG, PT_CONFIG);
    FUZZ_CHECK((status == PT_OK) == (length >= 0 && size > 4), "%s",
               pt_error_last()->text);
    if (status == PT_OK) {
        check_documents(corpus, data, (int64_t)size, decoded, length);
        check_samples(corpus, data);
        pt_corpus_close(corpus);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t block[2 * BLOCK], decoded[LONGEST];
    const uint8_t *end = size > 1 ? memchr(data + 1, '\n', size - 1) : NULL;
    size_t head = end ? (size_t)(end + 1 - data) : size, ahead, bytes = size - head;
    char *separator;

    if (size == 0 || head > LONGEST || bytes > BLOCK)
        return 0;
    separator = fuzz_text(data + 1, head - 1 - (end != NULL));
    ahead = data[0] > NEAR ? BLOCK - 256 + data[0] : 0;
    /* A million documents would take seconds. */
    int length = decode(separator, decoded), fill = 255;
    while (length > 0 && fill > 0 && memchr(decoded, fill, (size_t)length))
        fill--;
    memset(block, fill, ahead);
    if (bytes > 0)
        memcpy(block + ahead, data + head, bytes);
    fuzz_begin();
    open_corpus(separator, block, ahead + bytes);
    free(separator);
    fuzz_end();
    return 0;
}
