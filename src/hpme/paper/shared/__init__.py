"""What tables and figures share: records to cells, cells to tables, tables to pages."""
