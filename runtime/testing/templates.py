"""Small chat templates, one for each style that published models have."""

from __future__ import annotations

# Turns between marks, and nothing about tools: the style of small chat models.
PLAIN = """\
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# Tools in the system turn, calls as JSON between tags, results as a user's turn.
HERMES = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for m in messages if m.role != 'system' %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}
{%- for call in m.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {% if call.function.arguments is string %}
{{- call.function.arguments }}{% else %}{{ call.function.arguments | tojson }}{% endif %}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# The same for a model that thinks unless it is told not to.
THINKING = HERMES.replace(
    "<|im_start|>assistant\n{% endif %}",
    "<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}{% if reasoning_effort %}{{ reasoning_effort }}{% endif %}"
    "{% endif %}",
)

# Thinking is opened in the prompt, whatever the template is told; arguments are joined as text.
OPENS_THINKING = """\
{%- for m in messages %}
{%- if m.role == 'user' %}<|user|>{{ m.content }}
{%- elif m.role == 'assistant' and m.tool_calls %}<|assistant|>
{%- for call in m.tool_calls %}<｜tool▁call▁begin｜>{{ call.function.name }}<｜tool▁sep｜>
{{- call.function.arguments + '<｜tool▁call▁end｜>' }}
{%- endfor %}
{%- elif m.role == 'assistant' %}<|assistant|>{{ m.content.split('</think>')[-1] }}
{%- elif m.role == 'tool' %}<|result|>{{ m.content }}
{%- else %}{{ m.content }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|><think>
{% endif %}"""

# One call in a turn at most, results in a role of their own, calls as bare JSON.
ONE_CALL = """\
{%- for m in messages %}
{%- if m.tool_calls %}
{%- if m.tool_calls | length > 1 %}{{ raise_exception('One call at a time!') }}{% endif %}
{%- set call = m.tool_calls[0].function %}<|start_header_id|>assistant<|end_header_id|>

{"name": "{{ call.name }}", "parameters": {{ call.arguments | tojson }}}<|eot_id|>
{%- elif m.role == 'tool' %}<|start_header_id|>ipython<|end_header_id|>

{{ m.content | tojson }}<|eot_id|>
{%- else %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{% if tools and m.role == 'user' and loop.first %}{{ tools | tojson }}
{% endif %}{{ m.content }}<|eot_id|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}"""

# Ids of nine characters, tools with the last question, and turns that must alternate.
SHORT_IDS = """\
{%- set last = (messages | selectattr('role', 'equalto', 'user') | list)[-1] %}
{%- set seen = namespace(turns=0) %}
{%- for m in messages %}
{%- if m.role in ('user', 'assistant') and not m.tool_calls %}
{%- if (m.role == 'user') != (seen.turns % 2 == 0) %}
{{- raise_exception('Roles must alternate!') }}{% endif %}
{%- set seen.turns = seen.turns + 1 %}
{%- endif %}
{%- if m.role == 'user' %}
{%- if tools and m == last %}[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}
{{- '[INST] ' + m.content + '[/INST]' }}
{%- elif m.tool_calls %}[TOOL_CALLS] [
{%- for call in m.tool_calls %}
{%- if call.id is undefined or call.id | length != 9 %}
{{- raise_exception('Ids have nine characters!') }}{% endif %}
{{- (call.function | tojson)[:-1] }}, "id": "{{ call.id }}"}{{ '' if loop.last else ', ' }}
{%- endfor %}]</s>
{%- elif m.role == 'tool' %}
{%- if m.tool_call_id is undefined or m.tool_call_id | length != 9 %}
{{- raise_exception('Ids have nine characters!') }}{% endif %}
{{- '[TOOL_RESULTS] ' + m.content + '[/TOOL_RESULTS]' }}
{%- elif m.role == 'assistant' %}{{ m.content }}</s>
{%- else %}{{ raise_exception('Roles are user, assistant and tool!') }}
{%- endif %}
{%- endfor %}"""

# Calls in tags, so that arguments must be objects.
TAGGED = """\
{%- if tools %}# Tools
{% for tool in tools %}{% set f = tool.function %}<function>{{ f.name }}: {{ f.description }}
{% endfor %}{% endif %}
{%- for m in messages %}<|im_start|>{{ 'user' if m.role == 'tool' else m.role }}
{{ m.content }}
{%- for call in m.tool_calls or [] %}
<tool_call>
<function={{ call.function.name }}>
{%- for key, value in call.function.arguments | items %}
<parameter={{ key }}>
{{ value if value is string else value | tojson }}
</parameter>
{%- endfor %}
</function>
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# Roles of a plain conversation and no others.
STRICT = """\
{%- for m in messages %}
{%- if m.role not in ('user', 'assistant') or (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant.') }}
{%- endif %}<start_of_turn>{{ m.role }}
{{ m.content | trim }}<end_of_turn>
{% endfor %}
{%- if add_generation_prompt %}<start_of_turn>model
{% endif %}"""

# An answer is a row of messages, each with a channel.
HARMONY = """\
<|start|>system<|message|>{{ 'Reasoning: ' + (reasoning_effort or 'medium') }}<|end|>
{%- if tools %}<|start|>developer<|message|>
{%- for tool in tools %}type {{ tool.function.name }} = (_: any) => any;
{% endfor %}<|end|>{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|start|>functions.{{ m.name }} to=assistant
{{- '<|channel|>commentary<|message|>' }}{{ m.content | tojson }}<|end|>
{%- elif m.tool_calls %}
{%- for call in m.tool_calls %}<|start|>assistant to=functions.{{ call.function.name }}
{{- '<|channel|>commentary json<|message|>' }}{{ call.function.arguments | tojson }}<|call|>
{%- endfor %}
{%- elif m.role == 'assistant' %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>
{%- else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}"""

TEMPLATES = {
    "plain": PLAIN,
    "hermes": HERMES,
    "thinking": THINKING,
    "opens thinking": OPENS_THINKING,
    "one call": ONE_CALL,
    "short ids": SHORT_IDS,
    "tagged": TAGGED,
    "strict": STRICT,
    "harmony": HARMONY,
}
