"""The evidence of politeness, and the triggers that keep it."""

import django.db.models.deletion
from django.db import migrations, models


# A block is never changed. Blocks are deleted from the beginning of a chain only, and the chain keeps the number and the
# hash of the last deleted block.
_KEEP_BLOCKS = """
CREATE FUNCTION evidence_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'blocks of evidence are not changed' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER evidence_block_is_not_changed BEFORE UPDATE ON jobs_evidenceblock
   FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_append_only();

CREATE FUNCTION evidence_is_not_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs_evidenceblock) THEN
        RAISE EXCEPTION 'evidence is not truncated' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER evidence_block_is_not_truncated BEFORE TRUNCATE ON jobs_evidenceblock
   FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_not_truncated();
CREATE TRIGGER evidence_chain_is_not_truncated BEFORE TRUNCATE ON jobs_evidencechain
   FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_not_truncated();

CREATE FUNCTION evidence_is_pruned_from_its_beginning() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM deleted JOIN jobs_evidencechain AS chain ON chain.id = deleted.chain_id
                GROUP BY chain.id, chain.pruned_seq HAVING max(deleted.seq) <> chain.pruned_seq + count(*)) THEN
        RAISE EXCEPTION 'only the first blocks of evidence are deleted' USING ERRCODE = 'restrict_violation';
    END IF;
    UPDATE jobs_evidencechain AS chain SET pruned_seq = last.seq, pruned_hash = last.hash, pruned_at = clock_timestamp()
      FROM (SELECT DISTINCT ON (chain_id) chain_id, seq, hash FROM deleted ORDER BY chain_id, seq DESC) AS last
     WHERE chain.id = last.chain_id;
    RETURN NULL;
END $$;
CREATE TRIGGER evidence_block_is_pruned_from_the_beginning AFTER DELETE ON jobs_evidenceblock
   REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_pruned_from_its_beginning();

CREATE FUNCTION evidence_chain_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.seq > OLD.pruned_seq THEN
            RAISE EXCEPTION 'a chain of evidence with blocks is not deleted' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN OLD;
    END IF;
    IF NEW.host <> OLD.host OR NEW.seq < OLD.seq OR NEW.pruned_seq < OLD.pruned_seq OR NEW.pruned_seq > NEW.seq
       OR (NEW.seq = OLD.seq AND NEW.hash <> OLD.hash) OR (NEW.pruned_seq = OLD.pruned_seq AND NEW.pruned_hash <> OLD.pruned_hash)
       OR NEW.complete_until < OLD.complete_until THEN
        RAISE EXCEPTION 'a chain of evidence only grows' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER evidence_chain_only_grows BEFORE UPDATE OR DELETE ON jobs_evidencechain
   FOR EACH ROW EXECUTE FUNCTION evidence_chain_only_grows();
"""
_DROP = """
DROP TRIGGER evidence_block_is_not_changed ON jobs_evidenceblock;
DROP TRIGGER evidence_block_is_not_truncated ON jobs_evidenceblock;
DROP TRIGGER evidence_chain_is_not_truncated ON jobs_evidencechain;
DROP TRIGGER evidence_block_is_pruned_from_the_beginning ON jobs_evidenceblock;
DROP TRIGGER evidence_chain_only_grows ON jobs_evidencechain;
DROP FUNCTION evidence_is_append_only, evidence_is_not_truncated, evidence_is_pruned_from_its_beginning,
              evidence_chain_only_grows;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0038_trap_suspects'),
    ]

    operations = [
        migrations.CreateModel(
            name='EvidenceChain',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('host', models.TextField(unique=True)),
                ('seq', models.BigIntegerField(db_default=0, default=0)),
                ('hash', models.CharField(db_default='0000000000000000000000000000000000000000000000000000000000000000', default='0000000000000000000000000000000000000000000000000000000000000000', max_length=64)),
                ('pruned_seq', models.BigIntegerField(db_default=0, default=0)),
                ('pruned_hash', models.CharField(db_default='0000000000000000000000000000000000000000000000000000000000000000', default='0000000000000000000000000000000000000000000000000000000000000000', max_length=64)),
                ('pruned_at', models.DateTimeField(null=True)),
                ('complete_until', models.DateTimeField(null=True)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='EvidenceRecorder',
            fields=[
                ('worker', models.UUIDField(primary_key=True, serialize=False)),
                ('since', models.DateTimeField()),
                ('complete_until', models.DateTimeField()),
                ('reported_all', models.BooleanField(default=False)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='EvidenceReport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('worker', models.UUIDField()),
                ('number', models.IntegerField()),
                ('host', models.TextField()),
                ('minute', models.DateTimeField()),
                ('facts', models.TextField()),
                ('chained_at', models.DateTimeField(null=True)),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(condition=models.Q(('chained_at', None)), fields=['minute', 'host'], name='evidence_to_chain'), models.Index(condition=models.Q(('chained_at__isnull', False)), fields=['chained_at'], name='evidence_chained')],
                'constraints': [models.UniqueConstraint(fields=('worker', 'number'), name='one_evidence_report')],
            },
        ),
        migrations.CreateModel(
            name='EvidenceBlock',
            fields=[
                ('pk', models.CompositePrimaryKey('chain_id', 'seq', blank=True, editable=False, primary_key=True, serialize=False)),
                ('seq', models.BigIntegerField()),
                ('minute', models.DateTimeField()),
                ('content', models.TextField()),
                ('hash', models.CharField(max_length=64)),
                ('appended_at', models.DateTimeField()),
                ('chain', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='blocks', to='jobs.evidencechain')),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(fields=['chain', 'minute'], name='evidence_of_minute')],
            },
        ),
        migrations.RunSQL(_KEEP_BLOCKS, _DROP),
    ]
