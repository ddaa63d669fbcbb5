import django.db.models.deletion
import lakeui.monitoring.conditions
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('catalog', '0001_initial'),
        ('conflicts', '0001_initial'),
        ('jobs', '0001_initial'),
        migrations.swappable_dependency(settings.AUDITLOG_LOGENTRY_MODEL),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AlertChannel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('kind', models.CharField(choices=[('webhook', 'Webhook (JSON)'), ('slack', 'Slack'), ('teams', 'Microsoft Teams'), ('email', 'E-mail')], max_length=10)),
                ('shown_target', models.CharField(max_length=1000)),
                ('sealed_target', models.TextField()),
                ('sealed_secret', models.TextField(blank=True)),
                ('secret_made_at', models.DateTimeField(blank=True, null=True)),
                ('quiet_from', models.TimeField(blank=True, null=True)),
                ('quiet_to', models.TimeField(blank=True, null=True)),
                ('zone', models.CharField(default='UTC', max_length=64)),
                ('enabled', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='AlertRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('condition', models.CharField(choices=lakeui.monitoring.conditions.condition_choices, max_length=20)),
                ('threshold', models.PositiveIntegerField(blank=True, null=True)),
                ('tables', models.CharField(blank=True, max_length=255)),
                ('group_minutes', models.PositiveSmallIntegerField(default=5)),
                ('repeat_hours', models.PositiveSmallIntegerField(default=0)),
                ('ignores_quiet_hours', models.BooleanField(default=False)),
                ('enabled', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('told_at', models.DateTimeField(blank=True, null=True)),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rules', to='monitoring.alertchannel')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='AlertFinding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=120)),
                ('content', models.JSONField(default=dict)),
                ('first_seen_at', models.DateTimeField()),
                ('last_seen_at', models.DateTimeField()),
                ('told_at', models.DateTimeField(blank=True, null=True)),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='findings', to='monitoring.alertrule')),
            ],
            options={
                'ordering': ['rule', 'first_seen_at', 'id'],
                'constraints': [models.UniqueConstraint(fields=('rule', 'key'), name='one_finding_a_rule_and_key')],
            },
        ),
        migrations.CreateModel(
            name='AlertDelivery',
            fields=[
                ('created_at', models.DateTimeField()),
                ('outcome', models.CharField(choices=[('waiting', 'Waiting'), ('delivered', 'Delivered'), ('given_up', 'given up')], default='waiting', max_length=10)),
                ('tries', models.PositiveIntegerField(default=0)),
                ('next_try_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('error', models.CharField(blank=True, max_length=500)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('is_test', models.BooleanField(default=False)),
                ('content', models.JSONField(default=dict)),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='monitoring.alertchannel')),
                ('rule', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='deliveries', to='monitoring.alertrule')),
            ],
            options={
                'verbose_name_plural': 'alert deliveries',
                'ordering': ['-created_at', '-id'],
                'indexes': [models.Index(fields=['next_try_at'], name='delivery_by_due'), models.Index(fields=['-created_at', '-id'], name='delivery_by_time')],
            },
        ),
        migrations.CreateModel(
            name='AuditedTable',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('table_pk', models.BigIntegerField()),
                ('entry', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='audited_tables', to=settings.AUDITLOG_LOGENTRY_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('table_pk', 'entry'), name='one_entry_a_table_and_name')],
            },
        ),
        migrations.CreateModel(
            name='LineageEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField()),
                ('outcome', models.CharField(choices=[('waiting', 'Waiting'), ('delivered', 'Delivered'), ('given_up', 'given up')], default='waiting', max_length=10)),
                ('tries', models.PositiveIntegerField(default=0)),
                ('next_try_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('error', models.CharField(blank=True, max_length=500)),
                ('run_id', models.UUIDField()),
                ('type', models.CharField(choices=[('START', 'Start'), ('COMPLETE', 'Complete'), ('FAIL', 'Fail'), ('ABORT', 'Abort')], max_length=8)),
                ('at', models.DateTimeField()),
                ('content', models.JSONField(blank=True, default=dict)),
                ('job', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='lineage_events', to='jobs.job')),
                ('transaction', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='lineage_events', to='conflicts.pipelinetransaction')),
            ],
            options={
                'ordering': ['-at', '-id'],
                'indexes': [models.Index(fields=['next_try_at'], name='lineage_by_due'), models.Index(fields=['-created_at'], name='lineage_by_time')],
                'constraints': [models.UniqueConstraint(fields=('run_id', 'type'), name='one_event_a_run_and_type')],
            },
        ),
        migrations.CreateModel(
            name='Mute',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('about', models.CharField(blank=True, max_length=20)),
                ('until', models.DateTimeField()),
                ('reason', models.CharField(blank=True, max_length=500)),
                ('muted_at', models.DateTimeField(auto_now_add=True)),
                ('muted_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('statement_pair', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='mute', to='conflicts.statementpair')),
                ('table', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='mutes', to='catalog.table')),
            ],
            options={
                'ordering': ['until', 'id'],
                'indexes': [models.Index(fields=['until'], name='mute_by_end')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('statement_pair__isnull', True)), fields=('about', 'table'), name='one_mute_a_check_and_table'), models.UniqueConstraint(condition=models.Q(('table__isnull', True)), fields=('about',), name='one_mute_a_check_of_all')],
            },
        ),
    ]
