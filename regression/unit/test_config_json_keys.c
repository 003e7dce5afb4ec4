/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* config.json key by key: names that mean the same, keys that count, and the table for
 * readers. What the classes of transformers write themselves is kept here, from
 * versions 4.57.6 and 5.24.0. */
#include "penta/base/alloc.h"
#include "penta/config/config.h"
#include "regression/tap.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static pt_config_t a, b;
static char log_text[8192];

/* Reads the text of stderr, too. */
static pt_status_t load(const char *json, pt_config_t *out)
{
    char *gathered = NULL, *args[1] = {"model.config_json=config.json"};
    FILE *file = fopen("config.json", "w");
    int kept = dup(STDERR_FILENO),
        fd = open("stderr.txt", O_CREAT | O_TRUNC | O_RDWR, 0600);
    pt_status_t status;
    ssize_t length;

    fputs(json, file);
    fclose(file);
    pt_error_clear();
    dup2(fd, STDERR_FILENO);
    status = pt_config_gather(NULL, 1, args, &gathered);
    if (status == PT_OK)
        status = pt_config_parse(gathered, out);
    dup2(kept, STDERR_FILENO);
    close(kept);
    length = pread(fd, log_text, sizeof log_text - 1, 0);
    log_text[length > 0 ? length : 0] = '\0';
    close(fd);
    pt_free(gathered);
    return status;
}

static bool same_model(const pt_config_t *x, const pt_config_t *y)
{
    return memcmp(&x->model, &y->model, sizeof x->model) == 0;
}

/* ---- what the library writes --------------------------------------------------------------- */

static const char *const written[] = {
    "{\"vocab_size\": 50257, \"n_positions\": 1024, \"n_embd\": 768, \"n_layer\": 1"
    "2, \"n_head\": 12, \"n_inner\": null, \"activation_function\": \"gelu_new\", \""
    "resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1, \"layer_norm_e"
    "psilon\": 1e-05, \"initializer_range\": 0.02, \"summary_type\": \"cls_index\""
    ", \"summary_use_proj\": true, \"summary_activation\": null, \"summary_first"
    "_dropout\": 0.1, \"summary_proj_to_labels\": true, \"scale_attn_weights\": "
    "true, \"use_cache\": true, \"scale_attn_by_inverse_layer_idx\": false, \"re"
    "order_and_upcast_attn\": false, \"bos_token_id\": 50256, \"eos_token_id\": "
    "50256, \"return_dict\": true, \"output_hidden_states\": false, \"torchscrip"
    "t\": false, \"dtype\": null, \"pruned_heads\": {}, \"tie_word_embeddings\": t"
    "rue, \"chunk_size_feed_forward\": 0, \"is_encoder_decoder\": false, \"is_de"
    "coder\": false, \"cross_attention_hidden_size\": null, \"add_cross_attenti"
    "on\": false, \"tie_encoder_decoder\": false, \"architectures\": null, \"fine"
    "tuning_task\": null, \"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}, \"lab"
    "el2id\": {\"LABEL_0\": 0, \"LABEL_1\": 1}, \"task_specific_params\": null, \"p"
    "roblem_type\": null, \"tokenizer_class\": null, \"prefix\": null, \"pad_toke"
    "n_id\": null, \"sep_token_id\": null, \"decoder_start_token_id\": null, \"ma"
    "x_length\": 20, \"min_length\": 0, \"do_sample\": false, \"early_stopping\": "
    "false, \"num_beams\": 1, \"temperature\": 1.0, \"top_k\": 50, \"top_p\": 1.0, "
    "\"typical_p\": 1.0, \"repetition_penalty\": 1.0, \"length_penalty\": 1.0, \"n"
    "o_repeat_ngram_size\": 0, \"encoder_no_repeat_ngram_size\": 0, \"bad_words"
    "_ids\": null, \"num_return_sequences\": 1, \"output_scores\": false, \"retur"
    "n_dict_in_generate\": false, \"forced_bos_token_id\": null, \"forced_eos_t"
    "oken_id\": null, \"remove_invalid_values\": false, \"exponential_decay_len"
    "gth_penalty\": null, \"suppress_tokens\": null, \"begin_suppress_tokens\": "
    "null, \"num_beam_groups\": 1, \"diversity_penalty\": 0.0, \"_name_or_path\":"
    " \"\", \"transformers_version\": \"4.57.6\", \"tf_legacy_loss\": false, \"use_b"
    "float16\": false, \"model_type\": \"gpt2\", \"output_attentions\": false}",
    "{\"vocab_size\": 32000, \"max_position_embeddings\": 2048, \"hidden_size\": "
    "4096, \"intermediate_size\": 11008, \"num_hidden_layers\": 32, \"num_attent"
    "ion_heads\": 32, \"num_key_value_heads\": 32, \"hidden_act\": \"silu\", \"init"
    "ializer_range\": 0.02, \"rms_norm_eps\": 1e-06, \"pretraining_tp\": 1, \"use"
    "_cache\": true, \"rope_theta\": 10000.0, \"rope_scaling\": null, \"attention"
    "_bias\": false, \"attention_dropout\": 0.0, \"mlp_bias\": false, \"head_dim\""
    ": 128, \"return_dict\": true, \"output_hidden_states\": false, \"torchscrip"
    "t\": false, \"dtype\": null, \"pruned_heads\": {}, \"tie_word_embeddings\": f"
    "alse, \"chunk_size_feed_forward\": 0, \"is_encoder_decoder\": false, \"is_d"
    "ecoder\": false, \"cross_attention_hidden_size\": null, \"add_cross_attent"
    "ion\": false, \"tie_encoder_decoder\": false, \"architectures\": null, \"fin"
    "etuning_task\": null, \"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}, \"la"
    "bel2id\": {\"LABEL_0\": 0, \"LABEL_1\": 1}, \"task_specific_params\": null, \""
    "problem_type\": null, \"tokenizer_class\": null, \"prefix\": null, \"bos_tok"
    "en_id\": 1, \"pad_token_id\": null, \"eos_token_id\": 2, \"sep_token_id\": nu"
    "ll, \"decoder_start_token_id\": null, \"max_length\": 20, \"min_length\": 0,"
    " \"do_sample\": false, \"early_stopping\": false, \"num_beams\": 1, \"tempera"
    "ture\": 1.0, \"top_k\": 50, \"top_p\": 1.0, \"typical_p\": 1.0, \"repetition_p"
    "enalty\": 1.0, \"length_penalty\": 1.0, \"no_repeat_ngram_size\": 0, \"encod"
    "er_no_repeat_ngram_size\": 0, \"bad_words_ids\": null, \"num_return_sequen"
    "ces\": 1, \"output_scores\": false, \"return_dict_in_generate\": false, \"fo"
    "rced_bos_token_id\": null, \"forced_eos_token_id\": null, \"remove_invalid"
    "_values\": false, \"exponential_decay_length_penalty\": null, \"suppress_t"
    "okens\": null, \"begin_suppress_tokens\": null, \"num_beam_groups\": 1, \"di"
    "versity_penalty\": 0.0, \"_name_or_path\": \"\", \"transformers_version\": \"4"
    ".57.6\", \"tf_legacy_loss\": false, \"use_bfloat16\": false, \"model_type\": "
    "\"llama\", \"output_attentions\": false}",
    "{\"vocab_size\": 151936, \"max_position_embeddings\": 32768, \"hidden_size\""
    ": 4096, \"intermediate_size\": 22016, \"num_hidden_layers\": 32, \"num_atte"
    "ntion_heads\": 32, \"use_sliding_window\": false, \"sliding_window\": null,"
    " \"max_window_layers\": 28, \"num_key_value_heads\": 32, \"hidden_act\": \"si"
    "lu\", \"initializer_range\": 0.02, \"rms_norm_eps\": 1e-06, \"use_cache\": tr"
    "ue, \"rope_theta\": 10000.0, \"rope_scaling\": null, \"attention_dropout\": "
    "0.0, \"return_dict\": true, \"output_hidden_states\": false, \"torchscript\""
    ": false, \"dtype\": null, \"pruned_heads\": {}, \"tie_word_embeddings\": fal"
    "se, \"chunk_size_feed_forward\": 0, \"is_encoder_decoder\": false, \"is_dec"
    "oder\": false, \"cross_attention_hidden_size\": null, \"add_cross_attentio"
    "n\": false, \"tie_encoder_decoder\": false, \"architectures\": null, \"finet"
    "uning_task\": null, \"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}, \"labe"
    "l2id\": {\"LABEL_0\": 0, \"LABEL_1\": 1}, \"task_specific_params\": null, \"pr"
    "oblem_type\": null, \"tokenizer_class\": null, \"prefix\": null, \"bos_token"
    "_id\": null, \"pad_token_id\": null, \"eos_token_id\": null, \"sep_token_id\""
    ": null, \"decoder_start_token_id\": null, \"max_length\": 20, \"min_length\""
    ": 0, \"do_sample\": false, \"early_stopping\": false, \"num_beams\": 1, \"tem"
    "perature\": 1.0, \"top_k\": 50, \"top_p\": 1.0, \"typical_p\": 1.0, \"repetiti"
    "on_penalty\": 1.0, \"length_penalty\": 1.0, \"no_repeat_ngram_size\": 0, \"e"
    "ncoder_no_repeat_ngram_size\": 0, \"bad_words_ids\": null, \"num_return_se"
    "quences\": 1, \"output_scores\": false, \"return_dict_in_generate\": false,"
    " \"forced_bos_token_id\": null, \"forced_eos_token_id\": null, \"remove_inv"
    "alid_values\": false, \"exponential_decay_length_penalty\": null, \"suppre"
    "ss_tokens\": null, \"begin_suppress_tokens\": null, \"num_beam_groups\": 1,"
    " \"diversity_penalty\": 0.0, \"_name_or_path\": \"\", \"transformers_version\""
    ": \"4.57.6\", \"tf_legacy_loss\": false, \"use_bfloat16\": false, \"model_typ"
    "e\": \"qwen2\", \"output_attentions\": false}",
    "{\"vocab_size\": 151936, \"max_position_embeddings\": 32768, \"hidden_size\""
    ": 4096, \"intermediate_size\": 22016, \"num_hidden_layers\": 32, \"num_atte"
    "ntion_heads\": 32, \"use_sliding_window\": false, \"sliding_window\": null,"
    " \"max_window_layers\": 28, \"num_key_value_heads\": 32, \"head_dim\": 128, "
    "\"hidden_act\": \"silu\", \"initializer_range\": 0.02, \"rms_norm_eps\": 1e-06"
    ", \"use_cache\": true, \"rope_theta\": 10000.0, \"rope_scaling\": null, \"att"
    "ention_bias\": false, \"attention_dropout\": 0.0, \"return_dict\": true, \"o"
    "utput_hidden_states\": false, \"torchscript\": false, \"dtype\": null, \"pru"
    "ned_heads\": {}, \"tie_word_embeddings\": false, \"chunk_size_feed_forward"
    "\": 0, \"is_encoder_decoder\": false, \"is_decoder\": false, \"cross_attenti"
    "on_hidden_size\": null, \"add_cross_attention\": false, \"tie_encoder_deco"
    "der\": false, \"architectures\": null, \"finetuning_task\": null, \"id2label"
    "\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}, \"label2id\": {\"LABEL_0\": 0, "
    "\"LABEL"
    "_1\": 1}, \"task_specific_params\": null, \"problem_type\": null, \"tokenize"
    "r_class\": null, \"prefix\": null, \"bos_token_id\": null, \"pad_token_id\": "
    "null, \"eos_token_id\": null, \"sep_token_id\": null, \"decoder_start_token"
    "_id\": null, \"max_length\": 20, \"min_length\": 0, \"do_sample\": false, \"ea"
    "rly_stopping\": false, \"num_beams\": 1, \"temperature\": 1.0, \"top_k\": 50,"
    " \"top_p\": 1.0, \"typical_p\": 1.0, \"repetition_penalty\": 1.0, \"length_pe"
    "nalty\": 1.0, \"no_repeat_ngram_size\": 0, \"encoder_no_repeat_ngram_size\""
    ": 0, \"bad_words_ids\": null, \"num_return_sequences\": 1, \"output_scores\""
    ": false, \"return_dict_in_generate\": false, \"forced_bos_token_id\": null"
    ", \"forced_eos_token_id\": null, \"remove_invalid_values\": false, \"expone"
    "ntial_decay_length_penalty\": null, \"suppress_tokens\": null, \"begin_sup"
    "press_tokens\": null, \"num_beam_groups\": 1, \"diversity_penalty\": 0.0, \""
    "_name_or_path\": \"\", \"transformers_version\": \"4.57.6\", \"tf_legacy_loss\""
    ": false, \"use_bfloat16\": false, \"model_type\": \"qwen3\", \"output_attenti"
    "ons\": false}",
    "{\"transformers_version\": \"5.24.0\", \"architectures\": null, \"output_hidd"
    "en_states\": false, \"return_dict\": true, \"dtype\": null, \"chunk_size_fee"
    "d_forward\": 0, \"is_encoder_decoder\": false, \"id2label\": {\"0\": \"LABEL_0"
    "\", \"1\": \"LABEL_1\"}, \"label2id\": {\"LABEL_0\": 0, \"LABEL_1\": 1}, \"problem"
    "_type\": null, \"vocab_size\": 50257, \"n_positions\": 1024, \"n_embd\": 768,"
    " \"n_layer\": 12, \"n_head\": 12, \"n_inner\": null, \"activation_function\": "
    "\"gelu_new\", \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1, "
    "\"layer_norm_epsilon\": 1e-05, \"initializer_range\": 0.02, \"summary_type\""
    ": \"cls_index\", \"summary_use_proj\": true, \"summary_activation\": null, \""
    "summary_proj_to_labels\": true, \"summary_first_dropout\": 0.1, \"scale_at"
    "tn_weights\": true, \"use_cache\": true, \"bos_token_id\": 50256, \"eos_toke"
    "n_id\": 50256, \"pad_token_id\": null, \"scale_attn_by_inverse_layer_idx\":"
    " false, \"reorder_and_upcast_attn\": false, \"add_cross_attention\": false"
    ", \"tie_word_embeddings\": true, \"_name_or_path\": \"\", \"model_type\": \"gpt"
    "2\", \"output_attentions\": false}",
    "{\"transformers_version\": \"5.24.0\", \"architectures\": null, \"output_hidd"
    "en_states\": false, \"return_dict\": true, \"dtype\": null, \"chunk_size_fee"
    "d_forward\": 0, \"is_encoder_decoder\": false, \"id2label\": {\"0\": \"LABEL_0"
    "\", \"1\": \"LABEL_1\"}, \"label2id\": {\"LABEL_0\": 0, \"LABEL_1\": 1}, \"problem"
    "_type\": null, \"vocab_size\": 32000, \"hidden_size\": 4096, \"intermediate_"
    "size\": 11008, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num"
    "_key_value_heads\": 32, \"hidden_act\": \"silu\", \"max_position_embeddings\""
    ": 2048, \"initializer_range\": 0.02, \"rms_norm_eps\": 1e-06, \"use_cache\":"
    " true, \"pad_token_id\": null, \"bos_token_id\": 1, \"eos_token_id\": 2, \"pr"
    "etraining_tp\": 1, \"tie_word_embeddings\": false, \"rope_parameters\": {\"r"
    "ope_theta\": 10000.0, \"rope_type\": \"default\"}, \"attention_bias\": false,"
    " \"attention_dropout\": 0.0, \"mlp_bias\": false, \"head_dim\": 128, \"_name_"
    "or_path\": \"\", \"model_type\": \"llama\", \"output_attentions\": false}",
    "{\"transformers_version\": \"5.24.0\", \"architectures\": null, \"output_hidd"
    "en_states\": false, \"return_dict\": true, \"dtype\": null, \"chunk_size_fee"
    "d_forward\": 0, \"is_encoder_decoder\": false, \"id2label\": {\"0\": \"LABEL_0"
    "\", \"1\": \"LABEL_1\"}, \"label2id\": {\"LABEL_0\": 0, \"LABEL_1\": 1}, \"problem"
    "_type\": null, \"vocab_size\": 151936, \"hidden_size\": 4096, \"intermediate"
    "_size\": 22016, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"nu"
    "m_key_value_heads\": 32, \"hidden_act\": \"silu\", \"max_position_embeddings"
    "\": 32768, \"initializer_range\": 0.02, \"rms_norm_eps\": 1e-06, \"use_cache"
    "\": true, \"tie_word_embeddings\": false, \"rope_parameters\": {\"rope_theta"
    "\": 10000.0, \"rope_type\": \"default\"}, \"use_sliding_window\": false, \"sli"
    "ding_window\": null, \"max_window_layers\": 28, \"attention_dropout\": 0.0,"
    " \"pad_token_id\": null, \"bos_token_id\": null, \"eos_token_id\": null, \"_n"
    "ame_or_path\": \"\", \"model_type\": \"qwen2\", \"output_attentions\": false}",
    "{\"transformers_version\": \"5.24.0\", \"architectures\": null, \"output_hidd"
    "en_states\": false, \"return_dict\": true, \"dtype\": null, \"chunk_size_fee"
    "d_forward\": 0, \"is_encoder_decoder\": false, \"id2label\": {\"0\": \"LABEL_0"
    "\", \"1\": \"LABEL_1\"}, \"label2id\": {\"LABEL_0\": 0, \"LABEL_1\": 1}, \"problem"
    "_type\": null, \"vocab_size\": 151936, \"hidden_size\": 4096, \"intermediate"
    "_size\": 22016, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"nu"
    "m_key_value_heads\": 32, \"head_dim\": 128, \"hidden_act\": \"silu\", \"max_po"
    "sition_embeddings\": 32768, \"initializer_range\": 0.02, \"rms_norm_eps\": "
    "1e-06, \"use_cache\": true, \"tie_word_embeddings\": false, \"rope_paramete"
    "rs\": {\"rope_theta\": 10000.0, \"rope_type\": \"default\"}, \"attention_bias\""
    ": false, \"use_sliding_window\": false, \"sliding_window\": null, \"max_win"
    "dow_layers\": 28, \"attention_dropout\": 0.0, \"pad_token_id\": null, \"bos_"
    "token_id\": null, \"eos_token_id\": null, \"_name_or_path\": \"\", \"model_typ"
    "e\": \"qwen3\", \"output_attentions\": false}",
};

static void check_written(void)
{
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        static pt_config_t plain;
        char family[8] = "", json[64];
        pt_status_t status = load(written[i], &a);

        sscanf(strstr(written[i], "\"model_type\""), "\"model_type\": \"%7[a-z0-9]",
               family);
        tap_ok(status == PT_OK && strstr(log_text, "ignored") == NULL,
               "a class's defaults have no unknown key: %s%s", pt_error_last()->text,
               log_text);
        snprintf(json, sizeof json, "{\"model_type\": \"%s\"}", family);
        tap_ok(load(json, &plain) == PT_OK && same_model(&a, &plain), "are those of %s",
               json);
    }
}

/* ---- names that mean the same -------------------------------------------------------------- */

static const struct {
    const char *one, *other;
} equal[] = {
    {"{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":3,\"n_head\":4,"
     "\"n_positions\":512}",
     "{\"model_type\":\"gpt2\",\"hidden_size\":64,\"num_hidden_layers\":3,"
     "\"num_attention_heads\":4,\"max_position_embeddings\":512}"},
    {"{\"model_type\":\"gpt2\",\"n_embd\":96}",
     "{\"model_type\":\"gpt2\",\"n_embd\":96,\"hidden_size\":96}"},
    {"{\"model_type\":\"llama\",\"rope_theta\":5e5}",
     "{\"model_type\":\"llama\",\"rope_parameters\":{\"rope_theta\":500000}}"},
    {"{\"model_type\":\"llama\",\"rope_theta\":5e5}",
     "{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"default\","
     "\"rope_theta\":500000.0}}"},
    {"{\"model_type\":\"qwen2\",\"rope_theta\":1000000}",
     "{\"model_type\":\"qwen2\",\"rope_parameters\":{\"sliding_attention\":null,"
     "\"full_attention\":{\"rope_theta\":1e6,\"rope_type\":\"default\"}}}"},
    {"{\"model_type\":\"qwen3\",\"num_attention_heads\":16}",
     "{\"model_type\":\"qwen3\",\"num_attention_heads\":16,\"rope_scaling\":{},"
     "\"rope_parameters\":null,\"layer_types\":null,\"sliding_window\":null}"},
    {"{\"model_type\":\"llama\"}",
     "\xef\xbb\xbf{\"model_type\":\"llama\",\r\n\"head_dim\":null,\r\n"
     "\"num_key_value_heads\":null,\"attention_dropout\":null}\r\n"},
};

static void check_equal(void)
{
    /* qwen3 with 16 heads and 32 KV heads by default does not go; the pair proves both
     * fail. */
    for (size_t i = 0; i < sizeof equal / sizeof equal[0]; i++) {
        pt_status_t one = load(equal[i].one, &a), other = load(equal[i].other, &b);

        tap_ok(one == other && (one != PT_OK || same_model(&a, &b)), "%.50s: %s",
               equal[i].other, pt_error_last()->text);
        tap_ok(i == 5 || one == PT_OK, "and can be had");
    }
}

/* ---- refused, by name ---------------------------------------------------------------------- */

#define GPT2  "{\"model_type\":\"gpt2\","
#define LLAMA "{\"model_type\":\"llama\","
#define QWEN2 "{\"model_type\":\"qwen2\","
#define QWEN3 "{\"model_type\":\"qwen3\","

static const struct {
    const char *json, *part;
} refused[] = {
    {GPT2 "\"n_embd\":64,\"hidden_size\":128}", "hidden_size: another name of n_embd"},
    {GPT2 "\"n_layer\":2,\"num_hidden_layers\":3}", "num_hidden_layers"},
    {GPT2 "\"n_head\":2,\"num_attention_heads\":4}", "num_attention_heads"},
    {GPT2 "\"n_positions\":2,\"max_position_embeddings\":4}",
     "max_position_embeddings"},
    {GPT2 "\"hidden_size\":\"64\"}", "hidden_size: must be a whole number"},
    {GPT2 "\"n_embd\":null}", "n_embd: null"},
    {GPT2 "\"hidden_size\":null}", "hidden_size: null"},
    {GPT2 "\"layer_norm_epsilon\":0}", "layer_norm_epsilon: must be above 0"},
    {GPT2 "\"tie_word_embeddings\":null}", "tie_word_embeddings: null"},
    {GPT2 "\"scale_attn_weights\":null}", "scale_attn_weights"},
    {GPT2 "\"pruned_heads\":{\"1\":[0]}}", "pruned_heads"},
    {LLAMA "\"rms_norm_eps\":0}", "rms_norm_eps: must be above 0"},
    {LLAMA "\"rms_norm_eps\":-1e-6}", "rms_norm_eps: must be above 0"},
    {LLAMA "\"rms_norm_eps\":null}", "rms_norm_eps: null"},
    {LLAMA "\"rope_theta\":0}", "rope_theta: must be above 1"},
    {LLAMA "\"rope_theta\":null}", "rope_theta: must be a number"},
    {LLAMA "\"rope_theta\":\"1e6\"}", "rope_theta: must be a number"},
    {LLAMA "\"rope_parameters\":{\"rope_theta\":0}}",
     "rope_parameters: rope_theta: must be above 1"},
    {LLAMA "\"rope_scaling\":{\"factor\":2.0}}", "rope_scaling: factor"},
    {LLAMA "\"rope_scaling\":{\"rope_type\":\"default\",\"factor\":8}}",
     "rope_scaling: factor"},
    {LLAMA "\"rope_scaling\":{\"rope_type\":\"default\",\"type\":\"yarn\"}}",
     "rope_scaling: type \"yarn\""},
    {LLAMA "\"rope_parameters\":{\"partial_rotary_factor\":0.5}}",
     "partial_rotary_factor"},
    {LLAMA "\"rope_theta\":1e4,\"rope_parameters\":{\"full_attention\":"
           "{\"rope_theta\":1e6}}}",
     "given twice"},
    {QWEN3 "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"yarn\","
           "\"factor\":4.0}}}",
     "rope_parameters: full_attention: rope_type \"yarn\""},
    {QWEN3 "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e6},"
           "\"sliding_attention\":{\"rope_theta\":1e4}}}",
     "rope_parameters: sliding_attention"},
    {QWEN3 "\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":1e4}}}",
     "rope_parameters: sliding_attention"},
    {QWEN3 "\"head_dim\":null}", "head_dim: null"},
    {QWEN3 "\"layer_types\":[\"full_attention\"]}", "layer_types: lists 1 layers"},
    {QWEN2 "\"use_mrope\":true}", "use_mrope"},
    {QWEN2 "\"use_sliding_window\":null}", "use_sliding_window"},
    {LLAMA "\"quantization_config\":{\"bits\":4}}", "quantization_config"},
    {LLAMA "\"is_encoder_decoder\":true}", "is_encoder_decoder"},
    {LLAMA "\"per_layer_config\":{\"0\":{}}}", "per_layer_config"},
    {LLAMA "\"vocab_size\":true}", "vocab_size: must be a whole number"},
    {"\xff\xfe{\"model_type\"", "UTF-16"},
    {"\xfe\xff{\"model_type\"", "UTF-16"},
};

static void check_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        pt_status_t status = load(refused[i].json, &a);

        tap_ok(status == PT_CONFIG && strstr(pt_error_last()->text, refused[i].part),
               "%.60s: %s", refused[i].json, pt_error_last()->text);
    }
}

/* ---- warnings ------------------------------------------------------------------------------ */

static int lines_with(const char *part)
{
    int count = 0;

    for (const char *at = log_text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

static void check_warnings(void)
{
    tap_ok(load(LLAMA "\"hiden_size\":64,\"n_embd\":64,\"a\\u001b[31mb\":1}", &a) ==
                   PT_OK &&
               lines_with("warning") == 1 &&
               lines_with("hiden_size, n_embd, a\\x1b") == 1,
           "keys of no table and of another family, in one warning: %s", log_text);
    tap_ok(load(GPT2 "\"rms_norm_eps\":1e-6}", &a) == PT_OK &&
               lines_with("rms_norm_eps") == 1,
           "gpt2 has no rms_norm_eps: %s", log_text);
    tap_ok(load(LLAMA "\"pad_token_id\":0,\"torch_dtype\":\"bfloat16\"}", &a) == PT_OK &&
               lines_with("warning") == 0 && lines_with("pad_token_id 0 (") == 1 &&
               lines_with("torch_dtype") == 1,
           "what somebody may expect to count is told: %s", log_text);
    tap_ok(load(LLAMA "\"pad_token_id\":null,\"use_cache\":true}", &a) == PT_OK &&
               log_text[0] == '\0',
           "what nobody expects is not");
}

/* ---- the table for readers ----------------------------------------------------------------- */

static const struct {
    const char *kind, *key, *families;
} rows[] = {
#define PT_HF_HONOURED(key, families, becomes)  {"H", #key, #families},
#define PT_HF_ONLY(key, families, allowed, why) {"O", #key, #families},
#define PT_HF_IDLE(key, families, note)         {"I", #key, #families},
#undef GPT2
#undef LLAMA
#undef QWEN2
#undef QWEN3
#include "src/config/hf_keys.def"
};

static const char *in_words(const char *families)
{
    static const char *const words[][2] = {{"ALL", "all"},
                                           {"ROTARY", "llama, qwen2, qwen3"},
                                           {"GPT2", "gpt2"},
                                           {"LLAMA", "llama"},
                                           {"QWEN2", "qwen2"},
                                           {"QWEN3", "qwen3"},
                                           {"QWEN2 | QWEN3", "qwen2, qwen3"}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i][0], families) == 0)
            return words[i][1];
    return "?";
}

static void check_page(void)
{
    const char *root = getenv("PENTA_SRCDIR") ? getenv("PENTA_SRCDIR") : ".";
    char path[1024], line[160], *page = NULL;
    size_t length, missing = 0, listed = 0, count = sizeof rows / sizeof rows[0];
    const char *part[3];

    snprintf(path, sizeof path, "%s/doc/formats/config_json.md", root);
    if (pt_file_read(path, "page", 1 << 20, &page, &length) != PT_OK)
        page = NULL;
    tap_ok(page != NULL, "the page is there");
    if (!page)
        return;
    part[0] = strstr(page, "## Honoured");
    part[1] = strstr(page, "## Refused");
    part[2] = strstr(page, "## Without");
    for (size_t i = 0; i < count; i++) {
        size_t kind = strcspn("HOI", rows[i].kind);
        const char *found;

        snprintf(line, sizeof line, "\n| `%s` | %s |", rows[i].key,
                 in_words(rows[i].families));
        found = part[kind] ? strstr(part[kind], line) : NULL;
        if (!found || (kind < 2 && found > part[kind + 1])) {
            missing++;
            tap_ok(false, "%s of %s is in its table", rows[i].key, rows[i].families);
        }
    }
    for (const char *at = page; (at = strstr(at, "\n| `")); at++)
        listed++;
    tap_ok(missing == 0 && listed == count, "the page has %zu rows, the program %zu",
           listed, count);
    pt_free(page);
}

int main(void)
{
    check_written();
    check_equal();
    check_refused();
    check_warnings();
    check_page();
    return tap_done();
}
