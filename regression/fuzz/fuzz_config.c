/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration file: from its bytes to a configuration. */
#include "regression/fuzz/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    int fd = fuzz_file(data, size, path);

    config_from(path, 0, NULL);
    close(fd);
    return 0;
}
