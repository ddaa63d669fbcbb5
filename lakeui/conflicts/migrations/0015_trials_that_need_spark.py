from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_ONCE = 200
_SAID = (" needs Spark here, and trials run without it", " needs Spark to run again")


def tell_what_needs_spark(apps: StateApps, _schema_editor: BaseDatabaseSchemaEditor | None) -> None:
    """Answers recorded before there was `needs_spark` say it in their text alone."""
    recorded = apps.get_model("conflicts", "ConflictTrials").objects
    for trials in recorded.exclude(answers={}).only("pk", "answers").iterator(_ONCE):
        silent = [
            answer
            for answer in trials.answers.values()
            if isinstance(answer, dict)
            and "needs_spark" not in answer
            and str(answer.get("why", "")).endswith(_SAID)
        ]
        for answer in silent:
            answer["needs_spark"] = True
        if silent:
            trials.save(update_fields=["answers"])


class Migration(migrations.Migration):
    dependencies = [("conflicts", "0014_conflict_trials")]

    operations = [migrations.RunPython(tell_what_needs_spark, migrations.RunPython.noop)]
