"""me/my-model: one JSON object a call."""

from dataclasses import replace

from unspool.formats.families.hermes import BARE_THINK
from unspool.parsing.declaration import Format, JsonCalls

FORMATS = (
    Format(
        name="my_model",
        summary="one JSON object in <call> a call; reasoning in <ponder>",
        models=("me/my-model-7b",),
        reasoning=(replace(BARE_THINK, open="<ponder>", close="</ponder>", close_pad="\n"),),
        calls=JsonCalls(open=("<call>",), close=("</call>",)),
        turns=("<|bot|>",),
        stops=("<|end|>",),
        before_call="\n",
        between_calls="\n",
        source="chat template of me/my-model-7b",
        quirks=("The markers are ordinary text of several tokens.",),
    ),
)
