/* Schemas of the language as JSON Schemas.
 *
 * Only what every provider's structured output takes is used: typed properties, enum, items, minItems, all properties
 * required and no others allowed. The language's json type is any value, which a closed schema cannot say; it becomes
 * the empty schema, and who needs a closed one asks agent_schema_is_closed first. */
#include "schema.h"

#include <backend/backend.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <dsl/ast.h>

static json_t *typed(const char *type)
{
	json_t *o = json_object();

	json_put_str(o, "type", type);
	return o;
}

static json_t *type_schema(enum dsl_type t)
{
	switch (t) {
	case DSL_STRING:
		return typed("string");
	case DSL_BOOL:
		return typed("boolean");
	case DSL_INT:
		return typed("integer");
	case DSL_FLOAT:
		return typed("number");
	case DSL_STRINGS: {
		json_t *o = typed("array");
		json_put(o, "items", typed("string"));
		return o;
	}
	case DSL_TYPE_NONE:
	case DSL_JSON:
		break;
	}
	return json_object();
}

static json_t *field_schema(const struct dsl_field *f)
{
	json_t *o = type_schema(f->type);

	if (f->choices.n == 0)
		return o;
	json_t *list = json_array();
	for (size_t i = 0; i < f->choices.n; i++)
		(void)json_array_append_new(list, json_string(f->choices.v[i].s));
	json_put(o, "enum", list);
	return o;
}

/* One target's name. */
static json_t *choice_schema(const char *const *choices)
{
	json_t *o = typed("string"), *list = json_array();

	for (; *choices; choices++)
		(void)json_array_append_new(list, json_string(*choices));
	json_put(o, "enum", list);
	return o;
}

static json_t *choices_schema(const struct agent_task *a)
{
	if (!a->multi)
		return choice_schema(a->choices);
	json_t *list = typed("array");
	json_put(list, "items", choice_schema(a->choices));
	json_put_int(list, "minItems", 1);
	return list;
}

json_t *agent_schema(const struct agent_task *a)
{
	if (!a->schema && !a->choices)
		return NULL;
	json_t *o = typed("object"), *properties = json_object(), *required = json_array();

	if (a->choices)
		json_put(properties, a->multi ? "targets" : "target", choices_schema(a));
	for (size_t i = 0; !a->choices && i < a->schema->n; i++)
		json_put(properties, a->schema->fields[i].name.s, field_schema(&a->schema->fields[i]));
	const char *name;
	json_t *value;
	json_object_foreach(properties, name, value)(void) json_array_append_new(required, json_string(name));
	json_put(o, "properties", properties);
	json_put(o, "required", required);
	json_put_bool(o, "additionalProperties", false);
	return o;
}

bool agent_schema_is_closed(const json_t *schema)
{
	const char *name;
	const json_t *value;

	json_object_foreach((json_t *)(uintptr_t)json_object_get(schema, "properties"), name, value)
	{
		if (!json_get_str(value, "type"))
			return false;
	}
	return true;
}

int agent_schema_instruct(const json_t *schema, struct buf *to)
{
	auto_free char *text = json_compact(schema);

	return buf_printf(to,
			  "\n\nEnd your last message with one JSON object that keeps to this JSON Schema, in a ```json "
			  "block, and write nothing behind it:\n%s\n",
			  text);
}
