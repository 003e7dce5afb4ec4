/* SPDX-License-Identifier: Apache-2.0 */
/* What `penta status` reads of a run directory. The input: status.json, metrics.jsonl
 * and run.lock, one after the other, byte 0x01 between them. */
#include "regression/fuzz/rundir.h"

#include "src/cmd/private.h"

static const char *const names[] = {"status.json", "metrics.jsonl", "run.lock"};

/* Each file of the directory, as far as the input goes. */
static void put_files(const uint8_t *data, size_t size)
{
    char path[128];

    for (int i = 0; i < 3; i++) {
        const uint8_t *stop = size > 0 ? memchr(data, 1, size) : NULL;
        size_t length = stop ? (size_t)(stop - data) : size;

        rundir_put(names[i], data, length, path);
        if (length == 0)
            unlink(path);
        data += length + (stop != NULL);
        size -= length + (stop != NULL);
    }
}

/* What the command prints; to be freed. */
static char *told(bool json, pt_status_t *status)
{
    char *text = NULL, *arguments[] = {"status", rundir, json ? "--json" : NULL, NULL};
    size_t size;
    FILE *terminal = stdout;

    stdout = open_memstream(&text, &size);
    FUZZ_CHECK(stdout, "no memory");
    *status = pt_command_status.run(json ? 3 : 2, arguments, NULL);
    fclose(stdout);
    stdout = terminal;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pt_status_t status, again;

    fuzz_begin();
    put_files(data, size);
    char *plain = told(false, &status);
    fuzz_refusal(status, PT_IO, PT_CONFIG);
    pt_error_clear();
    for (const char *c = plain; *c; c++)
        FUZZ_CHECK(((unsigned char)*c >= 0x20 && *c != 0x7f) || strchr("\t\n", *c),
                   "byte 0x%02x in: %s", (unsigned char)*c, plain);
    char *json = told(true, &again);
    FUZZ_CHECK(again == status, "another answer as JSON");
    json_t *object = json_loads(json, 0, NULL);
    FUZZ_CHECK(status != PT_OK || json_is_object(object), "no JSON: %s", json);
    json_decref(object);
    free(json);
    free(plain);
    FUZZ_CHECK(pt_status_checkpoint_step(rundir) >= -1, "a step below none");
    fuzz_end();
    return 0;
}
