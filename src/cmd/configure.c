/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "src/cmd/private.h"

#include <string.h>

/* The first argument is the configuration file, unless it is section.key=value. */
static pt_status_t configure_gather(int argc, char **argv, char **text)
{
    const char *file = argc > 1 && strchr(argv[1], '=') == NULL ? argv[1] : NULL;
    int skip = file ? 2 : 1;
    PT_CHECK_COMMON(file == NULL || file[0] != '-', PT_CONFIG,
                    "no option '%s'; penta %s --help lists them; a configuration file "
                    "is the first argument, without an option before it",
                    file, argv[0]);
    for (int i = skip < argc ? skip : argc; i < argc; i++)
        PT_CHECK_COMMON(
            strchr(argv[i], '='), PT_CONFIG,
            "argument '%s' is neither section.key=value nor the first argument, which "
            "may be a configuration file",
            argv[i]);
    return pt_config_gather(file, argc > skip ? argc - skip : 0, argv + skip, text);
}

static pt_status_t configure_share(pt_comm_t *world, char **text)
{
    int64_t size = *text ? (int64_t)strlen(*text) + 1 : 0;
    PT_TRY(pt_comm_broadcast_bytes(world, 0, &size, sizeof size));
    pt_status_t status = PT_OK;
    if (*text == NULL)
        status = pt_alloc("configuration text", (size_t)size, 1, (void **)text);
    PT_TRY(pt_comm_agree(world, status, false));
    return pt_comm_broadcast_bytes(world, 0, *text, size);
}

pt_status_t pt_cmd_config(pt_transport_t *transport, int argc, char **argv,
                          pt_config_t *out)
{
    pt_engine_t *engine = NULL;
    char *text = NULL;
    pt_status_t status = PT_OK;
    PT_TRY(pt_engine_create(transport, &(pt_engine_options_t){.device = NULL}, &engine));
    pt_comm_t *world = pt_engine_world(engine);
    if (pt_comm_rank(world) == 0)
        status = configure_gather(argc, argv, &text);
    PT_TRY_GOTO(done, pt_comm_agree(world, status, true));
    PT_TRY_GOTO(done, configure_share(world, &text));
    PT_TRY_GOTO(done, pt_config_parse(text, out));
done:
    pt_free(text);
    pt_engine_destroy(engine);
    return status;
}
