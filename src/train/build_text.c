/* SPDX-License-Identifier: Apache-2.0 */
#include "pt_version.h"
#include "src/train/private.h"

#include <stdio.h>

void pt_train_build_text(const pt_trainer_t *t, char *buffer, size_t size)
{
    char libraries[PT_CHECKPOINT_TEXT];
    pt_checkpoint_libraries(libraries, sizeof libraries);
    snprintf(buffer, size, "penta %s (%s), %s, %s, %s", PT_VERSION, PT_GIT_REVISION,
             libraries, t->session.device->library, PT_COMPILER);
}
