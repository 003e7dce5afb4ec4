/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/text.h"
#include "src/cmd/private.h"
#include "src/cmd/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* stdio does not keep the errno of a write that failed inside it, so ask the system. */
bool pt_output_is_unread(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) &&
           !isatty(STDOUT_FILENO);
}

static pt_status_t output_check(bool written)
{
    int error = written && fflush(stdout) == 0 ? 0 : errno;

    if (error == 0)
        return PT_OK;
    if (pt_output_is_unread())
        return PT_STOPPED;
    return PT_FAIL_COMMON_OS(PT_IO, error, "standard output cannot be written: %m");
}

/* A model may generate control characters that a terminal would interpret, such as ESC.
 * Files get the bytes unchanged. */
static void output_put_shown(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool obeyed = (bytes[i] < 0x20 && bytes[i] != '\n' && bytes[i] != '\t') ||
                      bytes[i] == 0x7f;

        putchar(obeyed ? '?' : bytes[i]);
    }
}

pt_status_t pt_output_bytes(const void *bytes, size_t length)
{
    if (isatty(STDOUT_FILENO)) {
        output_put_shown(bytes, length);
        return output_check(!ferror(stdout));
    }
    return output_check(fwrite(bytes, 1, length, stdout) == length);
}

/* ---- JSON ------------------------------------------------------------------------ */

static pt_status_t output_set_string(json_t *object, const char *key,
                                     const uint8_t *bytes, int64_t length)
{
    char *clean = NULL;

    PT_TRY(pt_alloc("JSON text", (size_t)length + 1, 3, (void **)&clean));
    size_t kept = pt_text_utf8((const char *)bytes, (size_t)length, clean);
    int failed = json_object_set_new(object, key, json_stringn(clean, kept));
    pt_free(clean);
    PT_CHECK(!failed, PT_MEMORY, "no memory for a JSON text of %lld bytes",
             (long long)length);
    return PT_OK;
}

static pt_status_t output_put_object(const pt_output_t *output, const char *prompt,
                                     const uint8_t *text, int64_t length)
{
    json_t *object = json_object();
    pt_status_t status;

    PT_TRY_GOTO(done, output_set_string(object, "prompt", (const uint8_t *)prompt,
                                        (int64_t)strlen(prompt)));
    PT_TRY_GOTO(done, output_set_string(object, "text", text, length));
    status =
        output_check(fputs(output->written == 0 ? "[\n  " : ",\n  ", stdout) >= 0 &&
                     json_dumpf(object, stdout, 0) == 0);
done:
    json_decref(object);
    return status;
}

/* ---- texts ----------------------------------------------------------------------- */

pt_status_t pt_output_text(pt_output_t *output, const char *prompt, const uint8_t *text,
                           int64_t length, int64_t prompt_number, int64_t text_number)
{
    if (output->json)
        PT_TRY(output_put_object(output, prompt, text, length));
    else {
        int count = printf("%s==> prompt %" PRId64 ", text %" PRId64 " <==\n%s",
                           output->written == 0 ? "" : "\n", prompt_number, text_number,
                           prompt);

        PT_TRY(output_check(count > 0));
        PT_TRY(pt_output_bytes(text, (size_t)length));
        PT_TRY(pt_output_bytes("\n", 1));
    }
    output->written++;
    return PT_OK;
}

pt_status_t pt_output_end(const pt_output_t *output)
{
    return output->json ? pt_output_bytes("\n]\n", 3) : PT_OK;
}
