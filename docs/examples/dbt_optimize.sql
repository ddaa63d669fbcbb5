{#- macros/optimize_written.sql: OPTIMIZE what the run wrote, in dbt-spark's own session.
    dbt_project.yml:  on-run-end: "{{ optimize_written(results) }}" -#}
{% macro optimize_written(results) %}
  {%- if execute and flags.WHICH in ("run", "build") -%}
    {%- for result in results
          if result.status == "success"
          and result.node.resource_type in ("model", "snapshot", "seed")
          and result.node.config.get("materialized") != "view"
          and result.node.config.get("file_format", "delta") == "delta" %}
      {%- do run_query("OPTIMIZE " ~ result.node.relation_name) -%}
    {%- endfor -%}
  {%- endif -%}
{% endmacro %}
