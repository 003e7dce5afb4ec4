/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h — the mesh a configuration asks for (layer: parallel). Pure. */
#ifndef PENTA_LAYOUT_H
#define PENTA_LAYOUT_H

#include "penta/config/config.h"
#include "penta/comm/mesh.h"

/* Do heads, ffn and KV heads divide over parallel.tensor ranks? KV heads need not where the ranks are a
 * multiple of them. Fails: CONFIG (common), with the nearest size that works. */
pt_status_t pt_layout_check_tensor(const pt_config_t *config);
/* Sizes and order of the axes for `ranks` ranks. Fails: CONFIG (common): what does not divide, or is not
 * in this version, with the nearest that works. */
pt_status_t pt_layout_from_config(const pt_config_t *config, int ranks,
                                  pt_mesh_shape_t *out);

#endif
