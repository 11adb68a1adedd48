/* JSON-RPC 2.0 messages as MCP uses them: reading hostile text, writing our own. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum {
	RPC_MESSAGE_MAX = 4 * 1024 * 1024,
	RPC_VALUES_MAX = 256 * 1024, /* values in one message: jansson needs some hundred bytes for each */
	RPC_BATCH_MAX = 64,
	RPC_METHOD_MAX = 128,
	RPC_ID_MAX = 256, /* bytes of a string that the other side uses as an id */
	RPC_ERROR_SHOWN = 2000,
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESULT, RPC_ERROR };

/* One message; everything points into the text that was read and ends with the sink's call. */
struct rpc_message {
	enum rpc_kind kind;
	json_t *id;	    /* of a request: a number or a string */
	int64_t number;	    /* the id of an answer; -1: none of ours (we give numbers from 1) */
	const char *method; /* of requests and notifications */
	json_t *params;	    /* an object, or NULL */
	json_t *result;	    /* of RPC_RESULT: any value */
	json_int_t code;    /* of RPC_ERROR */
	const char *text;   /* of RPC_ERROR; never NULL then */
};
typedef void (*rpc_sink)(void *arg, const struct rpc_message *m);

/* Reads one message, or an array of them (version 2025-03-26 has batches). The sink is called for each good one before
 * a bad one makes the whole -EPROTO, so a message that came in time counts. */
int rpc_read(const char *text, size_t len, rpc_sink sink, void *arg, struct err *e) __attribute__((warn_unused_result));

/* New texts without a newline; the caller frees. params, result and id are borrowed; params NULL: none. */
char *rpc_request(int64_t id, const char *method, json_t *params) __attribute__((returns_nonnull));
char *rpc_notification(const char *method, json_t *params) __attribute__((returns_nonnull));
char *rpc_reply(json_t *id, json_t *result) __attribute__((returns_nonnull));
char *rpc_refuse(json_t *id, int code, const char *why) __attribute__((returns_nonnull));
