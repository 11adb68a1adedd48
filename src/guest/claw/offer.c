/* The tools that the model is told of: the built-in ones, those of the launcher, and the two by which a node speaks. */
#include "offer.h"

#include <string.h>

static const char ask_schema[] =
	"{\"type\":\"object\",\"properties\":{\"question\":{\"type\":\"string\"},\"options\":{\"type\":\"array\","
	"\"items\":{\"type\":\"string\"},\"description\":\"answers to choose from\"}},\"required\":[\"question\"]}";

static void one(struct jout *o, const char *name, const char *description, const char *schema)
{
	jout_open(o, '{');
	jout_put_str(o, "name", name);
	jout_put_str(o, "description", description);
	jout_key(o, "input_schema");
	jout_raw(o, schema, strlen(schema));
	jout_close(o, '}');
}

bool offer_is_host(const struct task *t, const char *name)
{
	for (size_t i = 0; i < t->n_host_tools; i++)
		if (strcmp(t->host_tools[i].name, name) == 0)
			return true;
	return false;
}

void offer_write(const struct task *t, const struct policy *p, struct jout *o)
{
	jout_open(o, '[');
	for (size_t i = 0; builtin_tools[i]; i++) {
		const struct tool *x = builtin_tools[i];
		/* The launcher may bring a tool of the same name: then it is that one. */
		if (!offer_is_host(t, x->name) && policy_offers(p, x->name, x))
			one(o, x->name, x->description, x->schema);
	}
	for (size_t i = 0; i < t->n_host_tools; i++)
		if (policy_offers(p, t->host_tools[i].name, NULL))
			one(o, t->host_tools[i].name, t->host_tools[i].description, t->host_tools[i].schema);
	if (t->interaction && !offer_is_host(t, TOOL_ASK))
		one(o, TOOL_ASK, "Asks the person who runs this workflow, and waits for the answer.", ask_schema);
	if (t->output_schema)
		one(o, TOOL_OUTPUT, "Gives the result of this task. Call it once, at the very end, with all of it.",
		    t->output_schema);
	jout_close(o, ']');
}
