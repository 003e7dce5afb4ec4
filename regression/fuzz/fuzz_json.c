/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of a model: from its bytes to a configuration. */
#include "regression/fuzz/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32], argument[64], *argv[1] = {argument};
    int fd = fuzz_file(data, size, path);

    snprintf(argument, sizeof argument, "model.config_json=%s", path);
    config_from(NULL, 1, argv);
    close(fd);
    return 0;
}
