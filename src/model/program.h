/* SPDX-License-Identifier: Apache-2.0 */
/* program.h — a block of the model as a table of nodes (private to src/model).
 *
 * A block (embedding, attention, ffn, head) is a program: a list of nodes. A node is of a kind (norm, linear,
 * attend, …), reads and writes tensors of the block, and uses rows of the parameter table. A kind is written
 * once, in three passes,
 *
 *   forward   makes the outputs y
 *   input     turns their gradients dy into the gradients dx of the inputs
 *   weight    adds to the gradients of the parameters
 *
 * and declares which operands each pass reads and writes. Everything else follows from that table: in which
 * order the passes of the nodes run, until when a tensor is kept and so where it lives (region.c), what is
 * computed again, whether an input's gradient is written or added to, and the checks that nobody
 * reads what nobody wrote, a gradient that another has replaced, or a partial sum as if it were whole. A new
 * layer is another table; a new axis adds nodes to it.
 *
 * A node that communicates only begins (`run`) and is ended (`end`) just before the first step that reads what it
 * makes. When a weight pass comes right after its input pass, weight steps whose operands are there fill
 * the gap. Orders are fixed when the model is planned, so they are the same on all ranks. */
#ifndef PT_MODEL_PROGRAM_H
#define PT_MODEL_PROGRAM_H

#include "penta/model/arch.h"
#include "penta/parallel/units.h"

typedef struct pt_call pt_call_t;
typedef struct pt_node pt_node_t;
typedef struct pt_program pt_program_t;

typedef enum pt_pass {
    PT_PASS_FORWARD,
    PT_PASS_INPUT,
    PT_PASS_WEIGHT,
    PT_PASSES
} pt_pass_t;

/* What a node works with. aux is what one pass leaves for another beside y: statistics of forward for input;
 * gradients of vectors of this micro-batch alone, which input makes and weight adds (added at once they
 * would round differently when the weight pass comes later). DX, DY follow X, Y. */
typedef enum pt_operand {
    PT_X,
    PT_X2,
    PT_X3,
    PT_Y,
    PT_AUX,
    PT_AUX2,
    PT_AUX3,
    PT_AUX4,
    PT_NAMED_OPERANDS,
    PT_DX = PT_NAMED_OPERANDS,
    PT_DX2,
    PT_DX3,
    PT_DY,
    PT_OPERANDS
} pt_operand_t;
#define PT_USE(operand) (1u << PT_##operand)

enum { PT_NODE_INPUTS = 3, PT_NODE_ROLES = 2 };

typedef struct pt_node_pass {
    unsigned reads, writes; /* PT_USE(operand); what is changed in place is in both */
    pt_status_t (*run)(const pt_call_t *call, const pt_node_t *node); /* NULL: nothing */
    pt_status_t (*end)(const pt_call_t *call,
                       const pt_node_t *node); /* NULL: run does it all */
} pt_node_pass_t;

/* Where the gradient of an input is made. */
typedef enum pt_gradient {
    PT_GRADIENT_OWN,      /* in memory of its own; written, or added to with `adds` */
    PT_GRADIENT_IN_PLACE, /* where dy is */
    PT_GRADIENT_IS_DY     /* it is dy as it is */
} pt_gradient_t;

/* What may be computed again for the weight pass instead of being kept. */
typedef enum pt_replay {
    PT_REPLAY_NEVER,
    PT_REPLAY_SELECTIVE, /* cheap beside a matrix product: with selective recompute */
    PT_REPLAY_ALWAYS
} pt_replay_t;

typedef struct pt_node_kind {
    const char *name;
    pt_node_pass_t pass[PT_PASSES];
    pt_replay_t replay;
    pt_gradient_t gradient[PT_NODE_INPUTS];
    bool adds; /* can add dx to what others have put there */
    /* How y is spread over the ranks of `axis`; refuses what the kind cannot read. NULL: an element-wise kind, whose
     * inputs are whole and spread alike, and y as they are. */
    pt_status_t (*placement)(pt_program_t *program, const pt_node_t *node,
                             pt_axis_t axis);
    /* The same for dx. NULL: dy is whole, dx is spread as x. */
    pt_status_t (*placement_gradient)(pt_program_t *program, const pt_node_t *node,
                                      pt_axis_t axis);
} pt_node_kind_t;

struct pt_node {
    const pt_node_kind_t *kind;
    int operand[PT_OPERANDS];      /* tensors of the block; PT_ABSENT */
    pt_role_t role[PT_NODE_ROLES]; /* PT_ROLE_COUNT: none. Which is which: the kind says */
    pt_norm_t norm;                /* of norms */
    pt_dropout_site_t dropout;     /* of embedding and residual */
    /* Follow: */
    bool accumulate; /* dx holds another reader's share already */
    bool weighted;   /* it has parameters, so its weight pass has work */
    bool replayed;   /* forward runs again before the weight passes that read y */
};

/* x and y of a block are the residual stream; in the backward pass one buffer is turned from dy into dx. */
enum {
    PT_TENSOR_X,
    PT_TENSOR_Y,
    PT_TENSOR_STREAM_GRADIENT,
    PT_TENSORS_COMMON,
    PT_ABSENT = -1
};

typedef struct pt_block_tensor {
    const char *name; /* static; that of its owner, for gradients */
    bool is_gradient;
    pt_tensor_t shape; /* as planned, without memory */
    bool by_rows;      /* dimension 0 is the rows of the micro-batch */
    int host;          /* lives in that tensor's memory; PT_ABSENT: in its own */
    int64_t first, cols, heads; /* a view: columns of the host, as `heads` heads */
    int gradient;               /* of it; PT_ABSENT */
    /* Follow: bits 1 << pass, those of views at their host. A replay is part of the weight pass. */
    unsigned written, read;
    bool replayed;
} pt_block_tensor_t;

typedef struct pt_step {
    const pt_node_t *node;
    pt_pass_t pass;
    bool again; /* forward once more: its inputs are as forward left them */
    bool ends;  /* what an earlier step of the node has begun */
} pt_step_t;

typedef enum pt_list {
    PT_LIST_FORWARD,
    PT_LIST_AGAIN,    /* forward, as far as backward needs it */
    PT_LIST_BACKWARD, /* input steps; with `fused` the weight steps too */
    PT_LIST_WEIGHT,   /* weight steps; with `fused` empty */
    PT_LISTS
} pt_list_t;

enum {
    PT_PROGRAM_NODES = 32,
    PT_PROGRAM_TENSORS = 64,
    PT_LIST_STEPS = 6 * PT_PROGRAM_NODES
};

/* What sizes and orders come from. Pointers borrowed. */
typedef struct pt_program_context {
    const pt_arch_t *arch;
    const pt_param_table_t *table;
    const pt_units_t *units;
    const pt_mesh_shape_t *mesh;
    int64_t rows;
    bool training;
    bool fused;                 /* weight passes come right after their input passes */
    bool selective;             /* recompute: what is cheap; with `fused` only */
    pt_dist_t x[PT_AXIS_COUNT]; /* how the block before leaves x */
} pt_program_context_t;

struct pt_program {
    const char *name; /* where's site */
    pt_program_context_t context;
    int layer;          /* whose parameters give the sizes; -1: outside the layers */
    pt_status_t status; /* of the first call that failed; later ones do nothing */
    int nodes, tensors;
    bool has_weights; /* follows: a weight pass has work */
    pt_node_t node[PT_PROGRAM_NODES];
    pt_block_tensor_t tensor[PT_PROGRAM_TENSORS];
    int steps[PT_LISTS];
    pt_step_t list[PT_LISTS][PT_LIST_STEPS];
};

/* ---- describing a block: program.c ---- */

/* All errors are INTERNAL and come from pt_program_end. */
void pt_program_begin(const char *name, const pt_program_context_t *context, int layer,
                      pt_program_t *out);
/* Adds a tensor and returns its index: [rows, cols] in T; [rows] (cols 0) or [rows, cols] in A; `count` elements of
 * `dtype`, whatever the micro-batch's size. */
int pt_program_rows(pt_program_t *program, const char *name, int64_t cols);
int pt_program_stats(pt_program_t *program, const char *name, int64_t cols);
int pt_program_vector(pt_program_t *program, const char *name, pt_dtype_t dtype,
                      int64_t count);
/* Columns [first, first + cols) of `host` as heads: [rows, heads, cols/heads]. */
int pt_program_view(pt_program_t *program, const char *name, int host, int64_t first,
                    int64_t cols, int64_t heads);
/* `tensor` lives in the memory of `host`, which is made of it in place. */
void pt_program_share(pt_program_t *program, int tensor, int host);
/* For nodes that work with more than operands (the head): written in one pass, last read in another. */
void pt_program_use(pt_program_t *program, int tensor, pt_pass_t written,
                    pt_pass_t read);
/* A node without operands and roles; then added. */
pt_node_t pt_node_of(const pt_node_kind_t *kind);
void pt_program_add(pt_program_t *program, const pt_node_t *node);
/* Has this model the parameter? What this rank has of it along `dim`: dimension 0 is the width that a linear layer
 * makes, 1 the width it takes. */
bool pt_program_has(const pt_program_t *program, pt_role_t role);
int64_t pt_program_size(const pt_program_t *program, pt_role_t role, int dim);

/* Derives all that follows and checks it: order.c, placement.c. */
pt_status_t pt_program_end(pt_program_t *program);
pt_status_t pt_program_order(pt_program_t *program);
pt_status_t pt_program_check_placement(pt_program_t *program);

/* The tensor's place on an axis of more than one rank. */
pt_dist_t pt_program_placement(const pt_program_t *program, int tensor, pt_axis_t axis);
void pt_program_set_placement(pt_program_t *program, int tensor, pt_axis_t axis,
                              pt_dist_t dist);
/* How this rank's shard of a parameter is cut. */
pt_dist_t pt_program_placement_of(const pt_program_t *program, pt_role_t role,
                                  pt_axis_t axis);
/* Refuses to read a partial sum, or (`dim` >= 0) a cut along `dim`. Absent operands are fine. */
pt_status_t pt_program_expect_whole(const pt_program_t *program, const pt_node_t *node,
                                    pt_operand_t operand, pt_axis_t axis, int dim);

/* ---- kinds: nodes/ ---- */

/* x -> y = norm(x), with the weights of `weight`, and of `bias` where the model has it. */
void pt_add_norm(pt_program_t *program, int x, int y, pt_role_t weight, pt_role_t bias);
/* The RMS norm of each head of the view x. */
void pt_add_head_norm(pt_program_t *program, int x, int y, pt_role_t weight);
/* y = x·Wᵀ + bias. */
void pt_add_linear(pt_program_t *program, int x, int y, pt_role_t weight,
                   pt_role_t bias);
/* Turns the heads of the view x by their positions, in place; nothing where the model has none. */
void pt_add_rotary(pt_program_t *program, int x);
/* y = attention of the views q, k, v. */
void pt_add_attend(pt_program_t *program, int q, int k, int v, int y);
/* y = activation(x + bias); x keeps the bias. */
void pt_add_activate(pt_program_t *program, int x, int y, pt_role_t bias);
/* y = past + dropout(branch + bias), in the memory of the branch. */
void pt_add_residual(pt_program_t *program, int past, int branch, int y, pt_role_t bias,
                     pt_dropout_site_t site);

/* ---- blocks: blocks/ ---- */

void pt_describe_embedding(pt_program_t *program);
void pt_describe_attention(pt_program_t *program);
void pt_describe_ffn(pt_program_t *program);
void pt_describe_head(pt_program_t *program);

#endif
