#include "src/data/private.h"

#include "penta/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTE_VOCAB = 256 };
#define BLANKS " \t\r\n"

/* Not mapped but read: a file cut short meanwhile is then an error, not SIGBUS. */
pt_status_t pt_corpus_read_file(const pt_corpus_file_t *file, int64_t offset,
                                int64_t count, uint8_t *out)
{
    while (count > 0) {
        ssize_t got = pread(file->descriptor, out, (size_t)count, offset);
        if (got < 0 && errno == EINTR)
            continue;
        PT_CHECK(got >= 0, PT_IO, "cannot read %s at byte %lld: %s", file->path,
                 (long long)offset, strerror(errno));
        PT_CHECK(got > 0, PT_IO,
                 "%s ends at byte %lld, but had %lld bytes when it was opened: do not "
                 "change files of data.path during a run",
                 file->path, (long long)offset, (long long)file->bytes);
        offset += got;
        count -= got;
        out += got;
    }
    return PT_OK;
}

static pt_status_t open_failed(const char *path, int error)
{
    char here[PT_CONFIG_TEXT];

    if (error == ENOENT && path[0] != '/' && getcwd(here, sizeof here))
        return PT_FAIL(PT_CONFIG, "data.path: no file %s in the working directory %s",
                       path, here);
    if (error == ENOENT || error == ENOTDIR)
        return PT_FAIL(PT_CONFIG, "data.path: no file %s", path);
    return PT_FAIL(PT_IO, "data.path: cannot open %.1024s: %s", path, strerror(error));
}

/* On failure the caller closes what `file` holds. */
static pt_status_t open_file(const char *path, int64_t start, pt_corpus_file_t *file)
{
    struct stat info;

    file->start = start;
    PT_TRY(pt_strdup("path of a corpus file", path, &file->path));
    /* Without O_NONBLOCK opening a pipe would wait for a writer. */
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor < 0)
        return open_failed(path, errno);
    PT_CHECK(fstat(file->descriptor, &info) == 0, PT_IO,
             "data.path: cannot examine %s: %s", path, strerror(errno));
    PT_CHECK(!S_ISDIR(info.st_mode), PT_CONFIG,
             "data.path: %s is a directory; name the text files in it", path);
    PT_CHECK(S_ISREG(info.st_mode), PT_CONFIG, "data.path: %s is not a regular file",
             path);
    PT_CHECK(info.st_size > 0, PT_CONFIG,
             "data.path: %s is empty; leave it out or fill it", path);
    file->bytes = info.st_size;
    PT_CHECK(file->bytes <= INT64_MAX - start, PT_CONFIG,
             "data.path: up to %s more bytes than 64 bits can count", path);
    return PT_OK;
}

static char *trim(char *text)
{
    size_t length;

    text += strspn(text, BLANKS);
    length = strlen(text);
    while (length > 0 && strchr(BLANKS, text[length - 1]))
        text[--length] = '\0';
    return text;
}

static pt_status_t open_files(pt_corpus_t *corpus, const char *list)
{
    char copy[PT_CONFIG_TEXT], *rest = copy;
    int count = 1;

    PT_CHECK(list[strspn(list, BLANKS)] != '\0', PT_CONFIG,
             "data.path is empty: set data.path=FILE[,FILE...], the text to train on");
    PT_REQUIRE(strlen(list) < sizeof copy);
    memcpy(copy, list, strlen(list) + 1);
    for (const char *c = copy; *c; c++)
        count += *c == ',';
    PT_TRY(PT_NEW("corpus files", count, &corpus->files));
    while (rest) {
        const char *path = trim(strsep(&rest, ","));
        pt_corpus_file_t *file = &corpus->files[corpus->file_count];
        PT_CHECK(*path != '\0', PT_CONFIG,
                 "data.path: name %d of %d between the commas is empty",
                 corpus->file_count + 1, count);
        file->descriptor = -1;
        corpus->file_count++;
        PT_TRY(open_file(path, corpus->tokens, file));
        corpus->tokens += file->bytes;
    }
    return PT_OK;
}

static void take_options(pt_corpus_t *corpus, const pt_config_t *config)
{
    corpus->sequence = config->train.sequence;
    corpus->seed = (uint64_t)config->train.seed;
    corpus->shuffle = config->data.shuffle;
    corpus->document_mask = config->data.document_mask;
}

pt_status_t pt_corpus_open(const pt_config_t *config, int64_t vocab, pt_corpus_t **out)
{
    pt_status_t status;
    pt_corpus_t *corpus = NULL;

    *out = NULL;
    PT_CHECK(
        vocab >= BYTE_VOCAB, PT_CONFIG,
        "a vocabulary of %lld cannot hold plain text, where every byte is a token: "
        "set model.vocab=%d or more",
        (long long)vocab, BYTE_VOCAB);
    PT_TRY(PT_NEW("corpus", 1, &corpus));
    take_options(corpus, config);
    PT_TRY_GOTO(close, open_files(corpus, config->data.path));
    PT_TRY_GOTO(close, pt_corpus_cut(corpus, config));
    PT_TRY_GOTO(close, pt_corpus_find_documents(corpus, config->data.separator,
                                                config->data.document_mask));
    *out = corpus;
    return PT_OK;
close:
    pt_corpus_close(corpus);
    return status;
}

pt_status_t pt_corpus_open_dry(const pt_config_t *config, int64_t tokens,
                               pt_corpus_t **out)
{
    pt_status_t status;
    pt_corpus_t *corpus = NULL;

    *out = NULL;
    PT_TRY(PT_NEW("corpus", 1, &corpus));
    take_options(corpus, config);
    corpus->tokens = tokens;
    PT_TRY_GOTO(close, pt_corpus_cut(corpus, config));
    PT_TRY_GOTO(close, PT_NEW("documents", 1, &corpus->document));
    corpus->documents = corpus->document_room = 1;
    *out = corpus;
    return PT_OK;
close:
    pt_corpus_close(corpus);
    return status;
}

void pt_corpus_close(pt_corpus_t *corpus)
{
    if (!corpus)
        return;
    for (int i = 0; i < corpus->file_count; i++) {
        if (corpus->files[i].descriptor >= 0)
            close(corpus->files[i].descriptor);
        pt_free(corpus->files[i].path);
    }
    pt_free(corpus->document);
    pt_free(corpus->files);
    pt_free(corpus);
}

int64_t pt_corpus_tokens(const pt_corpus_t *corpus)
{
    return corpus->tokens;
}

int64_t pt_corpus_documents(const pt_corpus_t *corpus)
{
    return corpus->documents;
}

static int file_of(const pt_corpus_t *corpus, int64_t token)
{
    int low = 0, high = corpus->file_count; /* files[low].start <= token */

    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (corpus->files[middle].start <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Tokens [first, first + count), across files. */
static pt_status_t read_tokens(const pt_corpus_t *corpus, int64_t first, int64_t count,
                               uint8_t *out)
{
    if (corpus->file_count == 0) {
        memset(out, 0, (size_t)count);
        return PT_OK;
    }
    for (int i = file_of(corpus, first); count > 0; i++) {
        const pt_corpus_file_t *file = &corpus->files[i];
        int64_t offset = first - file->start, part = file->bytes - offset;
        if (part > count)
            part = count;
        PT_TRY(pt_corpus_read_file(file, offset, part, out));
        first += part;
        count -= part;
        out += part;
    }
    return PT_OK;
}

/* Numbers the documents of T tokens from `first` and masks labels across boundaries.
 * Returns the number of masked ones. */
static int64_t fill_documents(const pt_corpus_t *corpus, int64_t first,
                              const pt_sequence_t *out)
{
    int64_t here = pt_corpus_document_of(corpus, first), origin = here, masked = 0;

    for (int64_t t = 0; t < corpus->sequence; t++) {
        bool is_last =
            here + 1 < corpus->documents && corpus->document[here + 1] == first + t + 1;
        out->document[t] = (int32_t)(here - origin);
        out->mask[t] = !is_last;
        masked += is_last;
        here += is_last;
    }
    return masked;
}

pt_status_t pt_corpus_fill(const pt_corpus_t *corpus, pt_split_t split, int64_t index,
                           int64_t id, const pt_sequence_t *out, int64_t *valid)
{
    int64_t length = corpus->sequence, first;
    uint8_t last = 0, *byte = out->mask; /* free until the mask is known */

    *valid = 0;
    PT_REQUIRE(index >= -1 && index < corpus->samples[split]);
    first = (corpus->first[split] + index) * length;
    if (index < 0) {
        memset(byte, 0, (size_t)length);
    } else {
        PT_TRY(read_tokens(corpus, first, length, byte));
        PT_TRY(read_tokens(corpus, first + length, 1, &last));
    }
    for (int64_t t = 0; t < length; t++) {
        out->token[t] = byte[t];
        out->label[t] = t + 1 < length ? byte[t + 1] : last;
        out->place[t] = out->position[t] = (int32_t)t;
        out->sample[t] = id;
    }
    if (index < 0) {
        if (corpus->document_mask)
            memset(out->document, 0, (size_t)length * sizeof *out->document);
        return PT_OK;
    }
    memset(out->mask, 1, (size_t)length);
    *valid = length;
    if (corpus->document_mask)
        *valid -= fill_documents(corpus, first, out);
    return PT_OK;
}
